// SPDX-License-Identifier: LGPL-2.1-or-later
// Table: rows of cells as aligned text. The renderers fill it; it knows no zone and no terminal.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace xenpack {

enum class Colour { none, dim, green, yellow, red };

// `text` in a colour, or as it is where colours are off.
[[nodiscard]] std::string painted(const std::string& text, Colour colour, bool colours);

// What the reader's screen can do.
struct Screen {
    std::optional<std::size_t> width{};  // columns; unset: no limit
    bool colours = false;
};

class Table {
  public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    struct Cell {
        std::string text;  // escaped
        Colour colour = Colour::none;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    // As many cells as there are columns.
    void add_row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

    // Lines with an end each. Only the last column is cut to the screen, to its title at least.
    [[nodiscard]] std::string render(const Screen& screen) const;

  private:
    [[nodiscard]] std::vector<std::size_t> widths(const Screen& screen) const;
    [[nodiscard]] std::string render_row(const std::vector<Cell>& cells,
                                         const std::vector<std::size_t>& widths,
                                         const Screen& screen) const;

    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace xenpack
