// SPDX-License-Identifier: LGPL-2.1-or-later
// Asks the kernel and the environment about standard output. Called by the commands.
#include "watcher/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace xenpack {

namespace {

bool is_set(const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
}

}  // namespace

bool output_is_terminal() {
    return isatty(STDOUT_FILENO) == 1;
}

Screen output_screen() {
    Screen screen;
    if (!output_is_terminal()) {
        return screen;
    }
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        screen.width = size.ws_col;
    }
    const char* term = std::getenv("TERM");
    screen.colours = !is_set("NO_COLOR") && term != nullptr && std::strcmp(term, "dumb") != 0;
    return screen;
}

Result<void> print(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
        return fail_as(ExitStatus::failed,
                       std::string("cannot write to standard output: ") + std::strerror(errno));
    }
    return {};
}

}  // namespace xenpack
