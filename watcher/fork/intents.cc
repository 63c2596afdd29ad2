// SPDX-License-Identifier: LGPL-2.1-or-later
// Files named by uuids, of lines: "template UUID", "name NAME", and for a pool's "pool NAME".
#include "watcher/fork/intents.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "watcher/files/whole_file.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

constexpr std::size_t kUuidBytes = 36;

// The value of the line that begins with `key`, and nothing where there is none.
std::string line_of(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) {
        return {};
    }
    text.remove_prefix(at + key.size());
    return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

std::optional<Uuid> parse_uuid(std::string_view text) {
    if (!guest::is_generation(text)) {
        return std::nullopt;
    }
    Uuid uuid{};
    std::size_t at = 0;
    for (std::uint8_t& byte : uuid) {
        at += text[at] == '-' ? 1U : 0U;
        std::from_chars(text.data() + at, text.data() + at + 2, byte, 16);
        at += 2;
    }
    return uuid;
}

std::string Intents::path_of(const Uuid& uuid) const {
    return directory_ + "/" + to_string(uuid);
}

Expected<void> Intents::write(const Intent& intent) const {
    std::error_code error;
    if (std::filesystem::create_directories(directory_, error); error) {
        return fail_with(error.value(), "cannot make the directory {}: {}", directory_,
                         error.message());
    }
    return replace_file(path_of(intent.uuid),
                        fmt::format("template {}\nname {}\n{}", intent.template_uuid, intent.name,
                                    intent.pool.empty() ? "" : "pool " + intent.pool + "\n"),
                        Readers::owner_only);
}

Expected<void> Intents::remove(const Uuid& uuid) const {
    const std::string path = path_of(uuid);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
        return fail_with(errno, "cannot remove {}: {}", path, std::strerror(errno));
    }
    return {};
}

Expected<std::vector<Intent>> Intents::load() const {
    std::vector<Intent> intents;
    std::error_code error;
    std::filesystem::directory_iterator files(directory_, error);
    if (error) {
        return error == std::errc::no_such_file_or_directory
                   ? Expected<std::vector<Intent>>(std::move(intents))
                   : fail_with(error.value(), "cannot read the directory {}: {}", directory_,
                               error.message());
    }
    for (const auto& file : files) {
        const std::string name = file.path().filename().string();
        const auto uuid = parse_uuid(std::string_view(name).substr(0, kUuidBytes));
        if (!uuid) {
            continue;
        }
        if (name.size() > kUuidBytes) {
            std::filesystem::remove(file.path(), error);  // no harm where it stays
            continue;
        }
        const std::string text = read_file(file.path().string()).value_or("");
        intents.push_back({*uuid, line_of(text, "template "), line_of(text, "\nname "),
                           line_of(text, "\npool ")});
    }
    return intents;
}

}  // namespace xenpack
