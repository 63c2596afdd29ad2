// SPDX-License-Identifier: LGPL-2.1-or-later
// Brood: the forks of one request, and how far each has come. All of them come to be, or none: once
// one has failed no other is begun, and those that are there are to go. Forks owns one for each
// request and does what it says. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

// How far forks have to come before the request is answered.
enum class Until { running, ready };

class Brood {
  public:
    enum class Stage {
        queued,
        building,  // the toolstack makes it, and cannot be stopped in that
        running,   // it is there; paused, if it was asked for paused
        ready,     // it has its identity and its networks
        leaving,   // it is being destroyed
        gone       // nothing is left of it
    };

    Brood(std::size_t count, Until until) : stages_(count, Stage::queued), until_(until) {}

    // The next to be begun; nothing: all are, or none shall be any more.
    [[nodiscard]] std::optional<std::size_t> next() const;
    // Those that are there though the request has failed: to be destroyed.
    [[nodiscard]] std::vector<std::size_t> unwanted() const;
    // Nothing is to come but the answer.
    [[nodiscard]] bool settled() const;
    // Why there are none; only the first reason counts.
    [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
    [[nodiscard]] Stage stage(std::size_t fork) const { return stages_[fork]; }
    [[nodiscard]] std::size_t size() const { return stages_.size(); }

    void enter(std::size_t fork, Stage stage) { stages_[fork] = stage; }
    void give_up(Error why);

  private:
    std::vector<Stage> stages_;
    Until until_;
    std::optional<Error> failure_;
};

}  // namespace xenpack
