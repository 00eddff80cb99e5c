// Tests that the registry of checks has exactly the ops, composites and layers that the sources
// define.
#include <iterator>
#include <regex>

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"

namespace {

using namespace heed::autograd;
namespace fs = std::filesystem;
using Names = std::set<std::string>;

// Returns the names of all registered layers if `layers` is true, otherwise the names of all other
// checks. The check of layer X is named nn.X or nn.X.WHAT; the name returned is X.
Names registered(bool layers) {
  Names names;
  for (const Check* check : library_checks())
    if (const std::string name(check->name()); name.starts_with("nn.") == layers)
      names.insert(layers ? name.substr(3, name.find('.', 3) - 3) : name);
  return names;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns what the first group of `pattern` matches in the sources below `folder`. Comments in the
// sources are ignored.
Names found_in(const std::string& folder, const std::string& pattern) {
  Names names;
  const std::regex regex(pattern);
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(HEED_SOURCE_DIR) / folder)) {
    if (entry.path().extension() != ".h" && entry.path().extension() != ".cpp") continue;
    const std::string text = std::regex_replace(text_of(entry.path()), std::regex("//[^\n]*"), "");
    for (std::sregex_iterator m(text.begin(), text.end(), regex), end; m != end; ++m)
      names.insert((*m)[1]);
  }
  return names;
}

TEST_CASE("every op and composite that the sources register is in the list, and nothing else") {
  Names named = found_in("autograd/ops", R"(const Op k\w+\(\s*\{\s*\.name = "(\w+)\")");
  named.merge(found_in("autograd/ops", R"(const Check k\w+\(\s*"(\w+)\")"));
  for (const auto& name : found_in("autograd/ops", R"(const SmoothOp<\w+> k\w+\(\s*"(\w+)\")"))
    named.insert({name, name + "_slope"});  // a SmoothOp has two ops
  CHECK(named.size() > 50);
  CHECK(registered(false) == named);
}

TEST_CASE("every function of ops.h has a check, unless it returns bool8 or int64") {
  Names functions;
  const std::string ops = text_of(fs::path(HEED_SOURCE_DIR) / "autograd/ops/ops.h");
  const std::regex function(R"(\n(?:Tensor|std::vector<Tensor>|AttentionResult) (\w+)\()");
  for (std::sregex_iterator m(ops.begin(), ops.end(), function), end; m != end; ++m)
    functions.insert((*m)[1]);
  CHECK(functions.size() > 50);
  for (const std::string& name : registered(false)) functions.erase(name);
  CHECK(functions == Names{"all", "any", "argmax", "eq", "ge", "gt", "isfinite", "le",
                           "logical_and", "logical_not", "logical_or", "lt", "ne", "tril_mask"});
}

TEST_CASE("every module of nn has a check") {
  const Names modules =
      found_in("nn", R"((?:struct|class) (\w+)[^;{()]*:[^;{()]*\bModule\b[^;{()]*\{)");
  CHECK(modules.size() >= 8);
  CHECK(registered(true) == modules);
}

TEST_CASE("a check leaves the list when it is destroyed, and has no copies") {
  static_assert(!std::is_copy_constructible_v<Check> && !std::is_copy_assignable_v<Check>);
  static_assert(!std::is_copy_constructible_v<Op> && !std::is_copy_assignable_v<Op>);
  static_assert(!std::is_move_constructible_v<Check> && !std::is_move_constructible_v<Op>);
  const std::size_t before = registered_checks().size();
  const auto square = [](SampleGen& g) -> Samples {
    return {{"x", [](Args t) { return t[0] * t[0]; }, {g.normal({2})}}};
  };
  {
    const Check check("test.local_check", square);
    const Op op({.name = "test.local_op", .samples = square});
    CHECK(registered_checks().size() == before + 2);
  }
  CHECK(registered_checks().size() == before);
  for (const Check* check : registered_checks()) CHECK(!check->samples().empty());
}

// ---- sizes

// Additional samples of gradient checks have an axis of size 0, 1 or 67, or rank 0. To draw them,
// the sample function of a check is called again with other shapes. The sample function also draws
// masks and indices, so their shapes match the inputs.

constexpr Index kLargeSize = 67;  // 64 columns are one block, 3 are a remainder
constexpr Index kMostElements = 100'000;

Index extent_of(SampleSize size) {
  return size == SampleSize::kZero ? 0 : size == SampleSize::kOne ? 1 : kLargeSize;
}

// Returns the samples of the check, with each shape changed by `resize`. Returns no samples if the
// check throws an Error for the changed shapes.
Samples drawn(const Check& check, const Resize& resize) {
  try {
    return check.samples(resize);
  } catch (const Error&) {
    return {};
  }
}

// Returns true if the op accepts the sample and all elements of its output are finite. For example,
// the mean of an empty tensor is not finite.
bool accepted(const Sample& s) {
  const NoGrad guard;
  try {
    return all(isfinite(s.f(s.inputs))).item() != 0;
  } catch (const Error&) {
    return false;
  }
}

// Returns the set of all axis sizes above 1 in all inputs.
std::set<Index> extents(const Samples& samples) {
  std::set<Index> all;
  for (const Sample& s : samples)
    for (const Tensor& x : s.inputs)
      for (const Index n : x.shape())
        if (n > 1) all.insert(n);
  return all;
}

// Returns "size 0", "size 1", "rank 0" or "large".
std::string_view size_name(SampleSize size) {
  constexpr std::string_view kNames[] = {"size 0", "size 1", "rank 0", "large"};
  return kNames[std::size_t(size)];
}

// Returns true if an input of the sample has an axis of this size. For kScalar it returns true if
// an input has rank 0.
bool has_size(const Sample& sample, SampleSize size) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(), [&](const Tensor& x) {
    if (size == SampleSize::kScalar) return x.rank() == 0;
    return std::any_of(x.shape().begin(), x.shape().end(), [&](Index n) {
      return size == SampleSize::kLarge ? n >= kLargeSize : n == extent_of(size);
    });
  });
}

// Returns resized samples of the check. For each n > 1 that is the size of an axis, there is a copy
// of the samples in which all axes of size n have `size` instead. For kScalar all shapes have rank
// 0. Samples that the op does not accept are left out. For kLarge only the smallest is returned. If
// an op must reject every sample of a size, no_sizes() of its check contains the size.
Samples resized_samples(const Check& check, SampleSize size) {
  Samples found;
  const auto add = [&](const std::string& name, const Resize& resize) {
    for (Sample& s : drawn(check, resize)) {
      s.name += ", " + name;
      if (has_size(s, size)) found.push_back(std::move(s));
    }
  };
  if (size == SampleSize::kScalar) {
    add("rank 0", [](const Shape&) { return Shape{}; });
  } else {
    for (const Index n : extents(check.samples()))
      add(std::to_string(n) + " made " + std::to_string(extent_of(size)), [&](Shape shape) {
        for (int a = 0; a < shape.rank(); ++a)
          if (shape[a] == n) shape[a] = extent_of(size);
        heed::check<ValueError>(shape.numel() <= kMostElements, "resized_samples", shape,
                                " takes too long");
        return shape;
      });
  }
  if (size != SampleSize::kLarge) {
    std::erase_if(found, std::not_fn(accepted));
    return found;
  }
  std::stable_sort(found.begin(), found.end(), [](const Sample& a, const Sample& b) {
    return input_elements(a) < input_elements(b);
  });
  const auto smallest = std::find_if(found.begin(), found.end(), accepted);
  return smallest == found.end() ? Samples{} : Samples{*smallest};
}

// Returns options for gradcheck. Only a few entries of large samples are checked. Under sanitizers,
// only a few entries of every sample are checked, because a full check takes minutes.
GradcheckOptions options(SampleSize size) {
  GradcheckOptions how{.order = size == SampleSize::kLarge ? 1 : 2};
  if (size == SampleSize::kLarge) how.dual_entries = how.difference_entries = 16;
  if (kSanitized) how.dual_entries = 4, how.difference_entries = 0;
  return how;
}

// Checks the samples and returns their number.
std::size_t check_samples(const Check& check, const Samples& samples, SampleSize size) {
  for (const Sample& s : samples) {
    CAPTURE(check.name(), size_name(size), s.name);
    const CheckReport report = gradcheck(s.f, s.inputs, options(size));
    CAPTURE(report.message);
    CHECK(report.ok());
  }
  return samples.size();
}

TEST_CASE(
    "every check passes at size 0, at size 1, at rank 0 and large, or states why it has no such "
    "size") {
  std::size_t ran = 0;
  for (const Check* check : library_checks())
    for (const SampleSize size : kAllSizes) {
      CAPTURE(check->name(), size_name(size));
      const Samples own = check->samples(), resized = resized_samples(*check, size);
      const bool covered =
          !resized.empty() ||
          std::any_of(own.begin(), own.end(), [&](const Sample& s) { return has_size(s, size); });
      const auto& excuses = check->no_sizes();
      const auto excuse = std::find_if(excuses.begin(), excuses.end(),
                                       [&](const NoSize& n) { return n.size == size; });
      // A size is either covered by a sample or listed in no_sizes().
      CHECK(covered == (excuse == excuses.end()));
      if (excuse != excuses.end()) CHECK(!excuse->why.empty());
      ran += check_samples(*check, resized, size);
    }
  CHECK(ran > 200);
}

}  // namespace
