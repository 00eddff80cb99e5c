// `heed diff`: compares the tensors of two runs, checkpoints or other safetensors files.
#include <algorithm>
#include <cmath>

#include "nn/io/tensor_difference.h"
#include "nn/run/run_folder.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/model_report.h"
#include "tools/heed/report/progress.h"

namespace heed {
namespace {

struct DiffArguments {
  std::string a, b;
  nn::Tolerance tolerance;
};

// The text has at most 24 lines with this number of rows.
constexpr std::size_t kShownTensors = 15;

constexpr Column kDiffTensors[] = {{"name", "tensor"},
                                   {"shape_a", "shape", "", "", 2},
                                   {"difference", "difference"},
                                   {"shape_b"},
                                   {"dtype_a"},
                                   {"dtype_b"},
                                   {"equal_bits"},
                                   {"beyond"},
                                   {"norm_a", "|A|", "", "{:.3g}", 4},
                                   {"norm_b", "|B|", "", "{:.3g}", 3},
                                   {"norm_difference", "|B - A|", "", "{:.3g}"},
                                   {"relative_norm", "/ |A|", "", "{:.3g}"},
                                   {"max_abs", "max |b - a|", "", "{:.3g}"},
                                   {"max_rel", "max / |a|", "", "{:.3g}", 1}};
constexpr Column kDiffKeys[] = {{"ok"},
                                {"a"},
                                {"b"},
                                {"atol"},
                                {"rtol"},
                                {"different"},
                                {"equal_bits"},
                                {"norm_a"},
                                {"norm_b"},
                                {"norm_difference"},
                                rows("tensors", kDiffTensors)};

nn::SafeTensors read_tensors(const std::string& path) {
  Progress progress(false);
  progress.at_work("Reading " + path);
  return autograd::is_file(path) ? nn::load_safetensors(path)
                                 : nn::load_weights(find_weights(path));
}

void add_tensor(Table& table, const nn::NamedDifference& d) {
  const auto shape = [](const nn::Tensor& x) { return x ? sizes_of(x.shape()) : Value(); };
  const auto dtype = [](const nn::Tensor& x) {
    return x ? Value(autograd::dtype_name(x.dtype())) : Value();
  };
  std::vector<Value> row = {d.name,     shape(d.a), d.elements ? Value() : d.text(),
                            shape(d.b), dtype(d.a), dtype(d.b)};
  if (const auto& e = d.elements)
    row.insert(row.end(), {e->equal_bits(), e->beyond, with_nan(e->norm_a), with_nan(e->norm_b),
                           with_nan(e->norm_difference),
                           with_nan(e->norm_difference == 0 ? 0 : e->norm_difference / e->norm_a),
                           with_nan(e->max_abs), with_nan(e->max_rel)});
  row.resize(table.columns.size());
  table.add(std::move(row));
}

// Sorts the tensors that differ to the front: first those whose elements cannot be compared, then
// by |B - A|, largest and NaN first.
void sort_by_difference(std::vector<nn::NamedDifference>& all) {
  const auto rank = [](const nn::NamedDifference& d) {
    if (!d.differs()) return -1.0;
    if (!d.elements || std::isnan(d.elements->norm_difference)) return HUGE_VAL;
    return d.elements->norm_difference;
  };
  std::ranges::stable_sort(all, [&](const auto& x, const auto& y) {
    return std::pair(!x.elements, rank(x)) > std::pair(!y.elements, rank(y));
  });
}

// Sets the norms of all tensors whose elements are compared, taken together.
void add_norms(Report& report, const std::vector<nn::NamedDifference>& all) {
  double a = 0, b = 0, difference = 0;
  for (const nn::NamedDifference& d : all)
    if (const auto& e = d.elements) {
      a += e->norm_a * e->norm_a, b += e->norm_b * e->norm_b;
      difference += e->norm_difference * e->norm_difference;
    }
  a = std::sqrt(a), b = std::sqrt(b), difference = std::sqrt(difference);
  report.set("norm_a", with_nan(a));
  report.set("norm_b", with_nan(b));
  report.set("norm_difference", with_nan(difference));
  report.line("All compared numbers: |A| {:.4g}, |B| {:.4g}, |B - A| {:.4g}", a, b, difference);
}

Report run_diff(const DiffArguments& a) {
  const nn::SafeTensors file_a = read_tensors(a.a), file_b = read_tensors(a.b);
  std::vector<nn::NamedDifference> all = nn::compare_files(file_a, file_b, a.tolerance);
  sort_by_difference(all);
  const auto count = [&](auto is) { return std::size_t(std::ranges::count_if(all, is)); };
  const std::size_t different = count(&nn::NamedDifference::differs),
                    equal = count([](auto&d) { return d.elements && d.elements->equal_bits(); });
  Report report(kDiffKeys);
  report.line("A {}", file_a.path);
  report.line("B {}", file_b.path);
  report.set("ok", different == 0);
  report.set("a", file_a.path);
  report.set("b", file_b.path);
  report.set("atol", a.tolerance.atol);
  report.set("rtol", a.tolerance.rtol);
  report.set("different", different);
  report.set("equal_bits", equal);
  report.line("{}: {} differ, {} have equal bits, {} are equal within the tolerance",
              counted(std::ssize(all), "tensor"), different, equal, all.size() - different - equal);
  const auto tokens_of = [](const nn::SafeTensors& file) {
    const auto found = file.metadata.find("vocabulary");
    return found == file.metadata.end() ? std::string() : found->second;
  };
  if (tokens_of(file_a) != tokens_of(file_b))
    report.line(
        "A and B have different tokens: equal rows of tok.weight belong to different symbols");
  add_norms(report, all);
  Table& table = report.table("tensors");
  for (const nn::NamedDifference& d : all) add_tensor(table, d);
  table.shown = std::min(different, kShownTensors);
  report.fail(different == 0 ? kOk : kCheckFailed);
  return report;
}

constexpr const char* kDiffNotes =
    R"(Compares tensors of the same name. An element a of A and b of B may differ by atol + rtol |a|. NaN
differs from all numbers; two NaN are equal only if their bits are. A tensor that only one file has, or
that has another shape or dtype, differs, too. Metadata is not compared, and 16-bit floats are compared
as float32.

|A| is the Euclidean norm of a tensor of A. / |A| is |B - A| divided by |A|, and max / |a| is the largest
|b - a| / |a|. Text shows only tensors that differ, those with the largest |B - A| first; --json and
--csv have all tensors.

To see what training changed, compare the checkpoint of step 0 (heed train --save-every) with the run.

The exit code is 0 if no tensor differs, 1 if one does, and 4 if a file cannot be read.

[JSON]
difference is null if the elements can be compared. beyond is the number of elements that differ by
more than the tolerance. Infinite numbers are null, and NaN is "nan".)";

}  // namespace

void diff_command(Command& c) {
  c.name = "diff", c.what = "compare the tensors of two runs, checkpoints or safetensors files";
  const std::string first =
      (nn::RunFolder("runs/a").file(nn::RunFolder::kCheckpoints) / "000000.safetensors").string();
  c.examples = fmt::format(
      "  heed train --save-every 400 --out runs/a\n"
      "  heed diff {} runs/a\n"
      "  heed train --seed 2 --out runs/b\n"
      "  heed diff runs/a runs/b --rtol 1e-5 --json",
      first);
  c.notes = kDiffNotes;
  auto a = std::make_shared<DiffArguments>();
  c.arguments = 2;
  c.add("Options",
        {{"a", a->a, "PATH", "run directory or .safetensors file"},
         {"b", a->b, "PATH", "run directory or .safetensors file"},
         {"atol", a->tolerance.atol, {0, HUGE_VAL, false, true}, "accepted |b - a|"},
         {"rtol", a->tolerance.rtol, {0, HUGE_VAL, false, true}, "accepted |b - a| / |a|"}});
  c.add_common(Command::kJson | Command::kCsv);
  c.mark(&nn::Setting::required, {"a", "b"});
  c.modes = {{.result = kDiffKeys, .run = [a](const Command&) { return run_diff(*a); }}};
}

}  // namespace heed
