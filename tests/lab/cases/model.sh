# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: memory=1700 dom0=700M timeout=300 judge=model_check
# The simulated host against the real one: two zones follow traces on a host that cannot serve both
# peaks at once, watched by xenpackd as shipped. What happened is written down in lines "data ...",
# from which tests/bench/model_check.cc runs the same on the simulated host and compares.
. /lab/lab.sh
. /lab/daemon.sh

# t_ms anon_kib active_kib cache_kib read_kib_s stream_kib_s
# Quiet for ten seconds and more, so that it is known what the guests use themselves.
declare -A traces=(
    [web]='xenpack-trace 1
# name: web
0 20480 4096 32768 2048 0
12000 20480 4096 32768 2048 0
28000 348160 40960 32768 4096 0
38000 348160 40960 32768 4096 0
38100 61440 8192 32768 4096 0
52000 61440 8192 32768 4096 0
58000 184320 20480 49152 4096 0
66000 184320 20480 49152 4096 0'
    [batch]='xenpack-trace 1
# name: batch
0 30720 4096 0 0 0
15000 30720 4096 0 0 0
16500 81920 16384 0 0 0
33000 81920 16384 0 0 0
49000 389120 32768 0 0 2048
56000 389120 32768 0 0 2048
56100 40960 8192 0 0 0
66000 40960 8192 0 0 0'
)
memory=256 maxmem=640 start_reserve=0

truncate -s 6G "$lab_state/disk"
for zone in web batch; do
    check "$zone is created" zone_create "$zone" memory=$memory maxmem=$maxmem "disk=$lab_state/disk"
done
for zone in web batch; do check "$zone is up" zone_up "$zone"; done

for zone in web batch; do
    printf 'data trace %s %s\n' "$zone" "${traces[$zone]//$'\n'/$'\n'data trace $zone }"
    while IFS= read -r line; do zone_say "$zone" "trace $line"; done <<<"${traces[$zone]}"
done
printf '[host]\nstart-reserve = %sM\n' $start_reserve >/etc/xenpack/xenpack.conf
check "the daemon starts" daemon_start
printf 'data daemon %s start_reserve_kib=%s memory_kib=%s max_memory_kib=%s\n' "$(now_ms)" \
    $((start_reserve * 1024)) $((memory * 1024)) $((maxmem * 1024))
for zone in web batch; do
    check "$zone reports and is steady" eventually 30 state_is "$zone" "steady shrinking growing"
done
sample_zones 250 "web=$(zone_domid web)" "batch=$(zone_domid batch)" >"$lab_state/samples" &
sampler=$!
for zone in web batch; do zone_say "$zone" follow; done
for zone in web batch; do
    followed=$(zone_expect "$zone" '^work: ' 150)
    check "$zone's workload has followed its trace" grep -q 'follow ok' <<<"$followed"
    printf 'data followed %s %s\n' "$zone" "${followed#work: follow ok }"
done
kill $sampler
cat "$lab_state/samples"
grep 'MiB:' "$lab_daemon_log" | sed 's/^/data log /'
for zone in web batch; do check "nothing was killed in $zone" never_killed "$zone"; done
