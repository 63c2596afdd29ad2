// SPDX-License-Identifier: LGPL-2.1-or-later
// Batches of records that are made, grouped, sorted and thrown away, with a cache that is kept: for
// the trace "java". Called by ../record. usage: java Batch SECONDS
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

public final class Batch {
    private record Entry(long id, int customer, double amount, String note) {}

    private static final int KEPT = 60_000;

    private static final Map<Long, String> cache = new LinkedHashMap<>(KEPT, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, String> eldest) {
            return size() > KEPT;
        }
    };

    private static double batch(Random random, int size) {
        List<Entry> entries = new ArrayList<>();
        for (int i = 0; i < size; ++i) {
            entries.add(new Entry(random.nextLong(), random.nextInt(5_000), random.nextDouble(),
                                  "entry " + i + " " + Long.toHexString(random.nextLong())));
        }
        Map<Integer, List<Entry>> groups = new HashMap<>();
        for (Entry entry : entries) {
            groups.computeIfAbsent(entry.customer(), key -> new ArrayList<>()).add(entry);
        }
        double sum = 0;
        for (List<Entry> group : groups.values()) {
            group.sort(Comparator.comparingDouble(Entry::amount));
            Entry first = group.get(0);
            cache.put(first.id(), first.note().repeat(20));
            sum += first.amount();
        }
        return sum;
    }

    public static void main(String[] args) throws InterruptedException {
        long end = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        Random random = new Random(1);
        double sum = 0;
        for (int round = 0; System.nanoTime() < end; ++round) {
            // Every tenth is a large one; between them it waits for work.
            sum += batch(random, round % 10 == 9 ? 1_500_000 : 150_000 + random.nextInt(200_000));
            Thread.sleep(round % 10 == 9 ? 8_000 : 1_500);
        }
        System.err.println(sum);
    }
}
