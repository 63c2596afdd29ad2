// SPDX-License-Identifier: LGPL-2.1-or-later
// Aligns, cuts and paints the cells of a Table. Pure.
#include "watcher/cli/table.h"

#include <algorithm>

#include "watcher/cli/text.h"

namespace xenpack {

namespace {

constexpr std::size_t kGap = 2;  // blanks between columns

}  // namespace

std::string painted(const std::string& text, Colour colour, bool colours) {
    if (!colours) {
        return text;
    }
    switch (colour) {
        case Colour::none:
            return text;
        case Colour::dim:
            return "\033[2m" + text + "\033[0m";
        case Colour::green:
            return "\033[32m" + text + "\033[0m";
        case Colour::yellow:
            return "\033[33m" + text + "\033[0m";
        case Colour::red:
            return "\033[31m" + text + "\033[0m";
    }
    return text;
}

std::vector<std::size_t> Table::widths(const Screen& screen) const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
        std::size_t width = width_of(columns_[column].title);
        for (const auto& row : rows_) {
            width = std::max(width, width_of(row[column].text));
        }
        widths.push_back(width);
    }
    if (screen.width) {
        std::size_t before = 0;
        for (std::size_t column = 0; column + 1 < widths.size(); ++column) {
            before += widths[column] + kGap;
        }
        const std::size_t room = *screen.width > before ? *screen.width - before : 0;
        widths.back() = std::min(widths.back(), std::max(room, width_of(columns_.back().title)));
    }
    return widths;
}

std::string Table::render_row(const std::vector<Cell>& cells,
                              const std::vector<std::size_t>& widths, const Screen& screen) const {
    std::string line;
    std::size_t owed = 0;  // blanks, written only if something follows
    for (std::size_t column = 0; column < cells.size(); ++column) {
        const std::string text = column + 1 == cells.size()
                                     ? cut_to(cells[column].text, widths[column])
                                     : cells[column].text;
        const std::size_t fill = widths[column] - width_of(text);
        const bool right = columns_[column].align == Align::right;
        owed += right ? fill : 0;
        if (!text.empty()) {
            line.append(owed, ' ').append(painted(text, cells[column].colour, screen.colours));
            owed = 0;
        }
        owed += (right ? 0 : fill) + kGap;
    }
    return line + '\n';
}

std::string Table::render(const Screen& screen) const {
    const std::vector<std::size_t> widths = this->widths(screen);
    std::vector<Cell> titles;
    for (const Column& column : columns_) {
        titles.push_back({column.title, Colour::dim});
    }
    std::string text = render_row(titles, widths, screen);
    for (const auto& row : rows_) {
        text += render_row(row, widths, screen);
    }
    return text;
}

}  // namespace xenpack
