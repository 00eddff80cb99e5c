// Compares the results of a notebook program with every verified entry of
// tests/data/notebook_numbers.json (see tests/data/README.md).
// If a number differs, the exit code is 1.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "examples/notebooks/notebook.h"

namespace {

using namespace heed::autograd;
using heed::notebook::text;
using Json = nlohmann::json;

// A result that the notebook program showed.
struct Shown {
  std::string cell, name;
  Tensor x;
  std::string text;
};

// Returns the number that `v` stores. In JSON, infinity and NaN are stored as texts.
double number(const Json& v) {
  if (!v.is_string()) return v.get<double>();
  return v == "-inf" ? -kInf : v == "inf" ? kInf : std::nan("");
}

// Returns a description of the first element of `got` that differs from the element of `want[key]`
// by more than the tolerances. If there is none, returns an empty string.
std::string difference(const Json& want, const char* key, const std::vector<double>& got,
                       double tol_abs, double tol_rel) {
  if (want[key].size() != got.size()) return text(got.size(), " values, not ", want[key].size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double w = number(want[key][i]), error = std::abs(got[i] - w);
    if (got[i] == w || error <= tol_abs + tol_rel * std::abs(w)) continue;
    std::ostringstream out;
    out.precision(17);
    out << key << "[" << i << "] is " << got[i] << ", not " << w;
    return out.str();
  }
  return {};
}

// Returns the numbers of a printed tensor, separated by spaces, without brackets and commas.
std::string digits(const std::string& printed) {
  std::string out;
  for (const char c : printed.substr(printed.find('(') + 1))
    out += std::string("[](), \n").find(c) == std::string::npos ? c : ' ';
  std::istringstream words(out);
  out.clear();
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Compares one result with its entry. Returns a description of the first difference, or an empty
// string. It compares the shape, the data within the stated tolerances, the float64 reference to
// 1e-9, and, if the notebook prints at most as many decimals as PyTorch, the printed characters.
std::string difference(const Json& want, const Shown& got) {
  const Shape shape = Dims(want.at("shape").get<std::vector<std::int64_t>>());
  if (got.x.shape() != shape) return text("shape ", got.x.shape(), ", not ", shape);
  const std::vector<double> values = to(contiguous(got.x), float64).to_vector<double>();
  std::string why;
  if (want.contains("data"))
    why = difference(want, "data", values, want.value("tol_abs", 0.0), want.value("tol_rel", 0.0));
  if (why.empty() && want.contains("reference"))
    why = difference(want, "reference", values, 1e-9, 1e-9);
  constexpr int kTorchDecimals = 4;
  if (why.empty() && want.value("printed_decimals", kTorchDecimals + 1) <= kTorchDecimals &&
      digits(got.text) != want.at("printed").get<std::string>())
    why = text("prints ", digits(got.text), ", not ", want.at("printed"));
  return why;
}

// Compares the results that the program showed with the expected value `name` of an entry. Returns
// a description of the difference, or an empty string.
std::string difference(const Json& want, const std::string& name, const std::vector<Shown>& shown) {
  if (want.is_array()) {  // `want` is a list of [name, shape] for all results
    Json got = Json::array();
    for (const Shown& s : shown)
      got.push_back({s.name, std::vector<std::int64_t>(s.x.shape().begin(), s.x.shape().end())});
    return got == want ? "" : text("is ", got.dump(), ", not ", want.dump());
  }
  const auto result =
      std::find_if(shown.begin(), shown.end(), [&](const Shown& s) { return s.name == name; });
  if (result == shown.end()) return "the program does not show it";
  if (want.is_object()) return difference(want, *result);
  // `want` is a boolean, or the text of an error. The text itself is not compared, only that an
  // error occurred.
  const bool expected = want.is_string() || want.get<bool>();
  return result->x.item() == double(expected) ? "" : text("is not ", want.dump());
}

// Collects the results of the program, and compares them at its end.
struct Golden : heed::notebook::Observer {
  Golden() { heed::notebook::observer = this; }

  void shown(const std::string& cell, const std::string& name, const Tensor& x,
             const std::string& text) override {
    all.push_back({cell, name, x, text});
  }

  int finish(int notebook, int code) override {
    const char* named = std::getenv("HEED_NOTEBOOK_NUMBERS");
    const std::string file = named ? named : HEED_SOURCE_DIR "/tests/data/notebook_numbers.json";
    const Json json = Json::parse(read_file(file));
    std::vector<std::string> lines;
    std::vector<bool> known(all.size());
    int entries = 0;
    for (const Json& entry : json.at("entries")) {
      if (entry.at("seed") != notebook) continue;
      const std::string id = entry.at("id");
      // The heading of a cell of the program is the cell of its entry, or, for derived entries, the
      // end of the ID ("derived.scaled").
      std::vector<Shown> here;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].cell != entry.value("cell", id) && all[i].cell != id.substr(id.find('.') + 1))
          continue;
        here.push_back(all[i]);
        known[i] = true;
      }
      if (entry.at("verified") != true) continue;
      ++entries;
      for (const auto& [name, want] : entry.at("expected").items()) {
        const std::string why = difference(want, name, here);
        if (!why.empty()) lines.push_back(text(id, ":", name, ": ", why));
      }
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!known[i]) lines.push_back(text(all[i].cell, ": no such entry"));
    if (entries == 0) lines.push_back(text("no verified entry of notebook ", notebook));
    std::cout << text(entries, " verified entries, ", lines.size(), " differences\n");
    for (const std::string& line : lines) std::cout << "DIFFERS: " << line << "\n";
    return code || !lines.empty();
  }

  std::vector<Shown> all;
} golden;

}  // namespace
