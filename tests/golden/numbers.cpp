// The comparison with seeds/numbers.json, whose format its README describes.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/golden/page.h"

namespace heed::notebook {
namespace {

using namespace autograd;
using Json = nlohmann::json;

double number(const Json& v) {
  if (!v.is_string()) return v.get<double>();
  return v == "-inf" ? -kInf : v == "inf" ? kInf : std::nan("");
}

Shape shape_of(const Json& sizes) { return Dims(sizes.get<std::vector<std::int64_t>>()); }

// Why `got` is not `want[key]` within the tolerances; empty if it is.
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

// Everything that an entry states of one result: its shape, the data within the tolerances stated,
// and the float64 reference to 1e-9.
std::string difference(const Json& want, const Tensor& got) {
  if (got.shape() != shape_of(want.at("shape")))
    return text("shape ", got.shape(), ", not ", shape_of(want.at("shape")));
  const std::vector<double> values = to(contiguous(got), float64).to_vector<double>();
  std::string why;
  if (want.contains("data"))
    why = difference(want, "data", values, want.value("tol_abs", 0.0), want.value("tol_rel", 0.0));
  if (why.empty() && want.contains("reference"))
    why = difference(want, "reference", values, 1e-9, 1e-9);
  return why;
}

using Results = std::vector<std::pair<std::string, Tensor>>;

// Why the results shown are not what an entry expects under `name`; empty if they are.
std::string difference(const Json& want, const std::string& name, const Results& results) {
  if (want.is_array()) {  // [name, shape] of each result in turn
    Json got = Json::array();
    for (const auto& [n, x] : results)
      got.push_back({n, std::vector<std::int64_t>(x.shape().begin(), x.shape().end())});
    return got == want ? "" : text("is ", got.dump(), ", not ", want.dump());
  }
  const auto result =
      std::find_if(results.begin(), results.end(), [&](const auto& r) { return r.first == name; });
  if (result == results.end()) return "the program does not show it";
  if (want.is_object()) return difference(want, result->second);
  // A boolean, or the text of an error: that ours is an error, too, is all that can be asked.
  const bool expected = want.is_string() || want.get<bool>();
  return result->second.item() == double(expected) ? "" : text("is not ", want.dump());
}

}  // namespace

Comparison compare(const std::string& file, int seed, const Page::Shown& shown) {
  const Json json = Json::parse(std::ifstream(file));
  Comparison result;
  Page::Shown unknown = shown;
  for (const Json& entry : json.at("entries")) {
    if (entry.at("seed") != seed) continue;
    const std::string id = entry.at("id");
    unknown.erase(id);
    if (entry.at("verified") != true) continue;
    ++result.entries;
    const auto found = shown.find(id);
    for (const auto& [name, want] : entry.at("expected").items()) {
      const std::string why =
          difference(want, name, found == shown.end() ? Results{} : found->second);
      if (!why.empty()) result.differences.push_back(text(id, ":", name, ": ", why));
    }
  }
  for (const auto& [id, results] : unknown) result.differences.push_back(id + ": no such entry");
  if (result.entries == 0) result.differences.push_back(text("no verified entry of seed ", seed));
  return result;
}

}  // namespace heed::notebook
