// SPDX-License-Identifier: LGPL-2.1-or-later
// Untrusted<T>: a value that a guest could have written. The store hands such values out in this
// wrapper; the only way to look inside is to name a parser, so that none is used unparsed.
#pragma once

#include <utility>

namespace xenpack {

template <class T>
class Untrusted {
  public:
    explicit Untrusted(T value) : value_(std::move(value)) {}

    // Returns what `parser` makes of the raw value. The parser must reject all it does not expect.
    template <class Parser>
    [[nodiscard]] auto parse(Parser&& parser) const {
        return std::forward<Parser>(parser)(value_);
    }

  private:
    T value_;
};

}  // namespace xenpack
