// SPDX-License-Identifier: LGPL-2.1-or-later
// The book on disk: what is promised, kept under /run so that a restart of the daemon, or its being
// killed, forgets no promise. The desk writes it after each change and reads it once, at start. It
// must not judge what is in it.
#pragma once

#include <string>

#include "watcher/error.h"
#include "watcher/reserve/book.h"

namespace xenpack {

// A missing file is an empty book, and so is one of an earlier boot: its processes and times mean
// nothing now. A file that cannot be read, or says what store_book never writes, is an error; it
// stays as it is until the next store_book().
[[nodiscard]] Expected<Book> load_book(const std::string& path);

// Aside, to the disk, and in place of the old one: at no moment is there half a book.
[[nodiscard]] Expected<void> store_book(const std::string& path, const Book& book);

// Whether there is anything at all at `path`.
[[nodiscard]] bool book_is_there(const std::string& path);

}  // namespace xenpack
