// The result of a command: what is set is JSON, what is added is text.
//   Out out;
//   out.set("loss", loss);
//   out.text("loss {:.4f} nats per token", loss);
//   return out;
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/io/json.h"
#include "tools/heed/report/output.h"

namespace heed {

using Value = nn::Json;
using Cells = std::vector<std::string>;  ///< texts of one row of a table

/// Result of a command. The program prints it as JSON or as text, and then ends with its exit code.
class Out {
 public:
  /// Adds a key to the JSON object. A number that is not finite is printed as null.
  void set(std::string key, Value value) { json_.append(std::move(key), std::move(value)); }

  /// Adds the keys of an object.
  void set_all(const Value& object) { json_.update(object); }

  /// Adds a paragraph, wrapped at 80 columns. All lines into which a line is broken have its
  /// indentation.
  template <class... Args>
  void text(fmt::format_string<Args...> text, Args&&... args) {
    add_paragraph(fmt::format(text, std::forward<Args>(args)...));
  }
  /// Adds lines that are not wrapped, such as drawings.
  void block(std::string_view lines) { text_.append(lines); }
  /// Adds an empty line, unless the text is empty or ends with one.
  void gap();
  /// Adds a table: the headings, and the rows, with one cell per heading. Columns of
  /// numbers are aligned right. A column without any value is left out, and so is a heading line
  /// without headings. Columns are as wide as their widest cells, so a text of unlimited length,
  /// such as a path, belongs in the last column. Its words are wrapped at 80 columns.
  void table(const Cells& headings, const std::vector<Cells>& rows);
  /// Sets the key "files" and adds the path of the file or, for several files of one directory, the
  /// directory and their names.
  void files(const std::vector<std::filesystem::path>& files);

  /// Sets the exit code, and a line (unless it is empty) that the program prints to stderr after
  /// the result.
  void fail(ExitCode code, std::string why = "") { exit_code = code, error = std::move(why); }

  /// Returns the text. It ends with a newline, unless it is empty.
  const std::string& as_text() const { return text_; }
  /// Returns the JSON object on one line; "" if no key is set.
  std::string as_json() const { return json_.entries().empty() ? "" : json_.dump() + "\n"; }

  ExitCode exit_code = kOk;
  std::string error = {};  ///< printed to stderr after the result

 private:
  void add_paragraph(const std::string& text);

  Value json_ = Value::object();
  std::string text_;
};

/// Formats a number for a table with an fmt format, "{:.4f}"; "-" if it is NaN or missing.
std::string number_text(std::string_view format, std::optional<double> x);

/// Returns the number of code points.
std::size_t width_of(std::string_view text);
/// Breaks the text into lines of at most 80 code points, unless a word is longer. Each line after
/// the first starts with `hang` blanks.
std::string wrapped(std::string_view text, std::size_t hang = 0);

}  // namespace heed
