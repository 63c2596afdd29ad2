// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs `xl create --dryrun` and takes what it prints. What its figures mean is not looked at.
#include "watcher/cli/dry_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "watcher/cli/program.h"

namespace xenpack {
namespace {

// It reads a file, and asks Xen which one it is.
constexpr std::int64_t kDryRunWithinMs = 60'000;

}  // namespace

Result<std::string> dry_run(const std::vector<std::string>& xl_arguments) {
    std::vector<std::string> command{"xl", "create", "--dryrun"};
    command.insert(command.end(), xl_arguments.begin(), xl_arguments.end());
    const auto ran = run_program(command, kDryRunWithinMs);
    if (!ran) {
        return tl::unexpected<Failure>(ran.error());
    }
    if (ran->status != 0) {
        std::string said = ran->err.empty() ? ran->out : ran->err;
        while (said.ends_with('\n')) {
            said.pop_back();
        }
        return fail_as(static_cast<ExitStatus>(ran->status),
                       fmt::format("xl cannot read the configuration (its "
                                   "status is {}){}{}",
                                   ran->status, said.empty() ? ", and says nothing" : ":\n", said));
    }
    if (!nlohmann::json::accept(ran->out)) {
        return fail_as(ExitStatus::failed,
                       "xl create --dryrun did not print JSON: set output_format=\"json\" in "
                       "/etc/xen/xl.conf");
    }
    return ran->out;
}

}  // namespace xenpack
