// SPDX-License-Identifier: LGPL-2.1-or-later
// A list of jobs, and what several kinds of them ask. Jobs leave it from within their own calls, so
// what goes through the list goes through a copy.
#include "plugin/libxl/jobs.h"

#include <algorithm>
#include <cerrno>

namespace xenpack {
namespace {

std::vector<Job*> copy_of(const std::vector<std::unique_ptr<Job>>& jobs) {
    std::vector<Job*> copy;
    copy.reserve(jobs.size());
    for (const auto& job : jobs) {
        copy.push_back(job.get());
    }
    return copy;
}

Expected<void> check_name(Tools& tools, const std::string& name, const Job* self,
                          std::uint32_t except) {
    if (tools.jobs.is_giving(name, self)) {
        return fail_with(EEXIST, "the name {} is being given to another domain", name);
    }
    const auto taken = tools.names.is_taken(name, except);
    if (!taken) {
        return tl::unexpected(taken.error());
    }
    if (*taken) {
        return fail_with(EEXIST, "there is a domain named {} already", name);
    }
    return {};
}

}  // namespace

Expected<void> Jobs::add(std::unique_ptr<Job> job) {
    if (is_on(job->uuid())) {
        return fail_with(EBUSY, "the domain with uuid {} is being sealed, made or destroyed",
                         uuid_text(job->uuid().data()));
    }
    Job* const added = job.get();
    jobs_.push_back(std::move(job));
    later_.add([this, added] {
        if (std::any_of(jobs_.begin(), jobs_.end(),
                        [&](const auto& each) { return each.get() == added; })) {
            added->begin();
        }
    });
    return {};
}

std::unique_ptr<Job> Jobs::take(Job& job) {
    const auto at = std::find_if(jobs_.begin(), jobs_.end(),
                                 [&](const auto& each) { return each.get() == &job; });
    std::unique_ptr<Job> taken = std::move(*at);
    jobs_.erase(at);
    return taken;
}

bool Jobs::is_giving(const std::string& name, const Job* self) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& each) {
        return each.get() != self && each->name() == name;
    });
}

bool Jobs::is_on(const DomainUuid& uuid) const {
    return std::any_of(jobs_.begin(), jobs_.end(),
                       [&](const auto& each) { return each->uuid() == uuid; });
}

void Jobs::host_changed() {
    for (Job* job : copy_of(jobs_)) {
        job->host_changed();
    }
}

void Jobs::cancel_all() {
    for (Job* job : copy_of(jobs_)) {
        job->cancel();
    }
}

void Jobs::abandon_all() noexcept {
    while (!jobs_.empty()) {
        const std::unique_ptr<Job> last = std::move(jobs_.back());
        jobs_.pop_back();
        last->abandon();
    }
}

Expected<void> check_name(Tools& tools, const Job& job, std::uint32_t except) {
    return check_name(tools, job.name(), &job, except);
}

Expected<void> check_name(Tools& tools, const std::string& name, std::uint32_t except) {
    return check_name(tools, name, nullptr, except);
}

int code_of(const Error& error) noexcept {
    return error.code > 0 ? -error.code : -EIO;
}

}  // namespace xenpack
