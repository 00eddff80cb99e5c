// `heed plot`: draws a tensor of a .safetensors file as a heat map, or the loss of a run.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "autograd/ops/ops.h"
#include "nn/io/limits.h"
#include "nn/io/nearest.h"
#include "nn/io/safetensors.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/tasks/corpus.h"
#include "tools/heed/commands.h"
#include "tools/heed/find_run.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"
#include "tools/plot/plot.h"

namespace heed {
namespace {

struct PlotArguments {
  std::string file, name, title, x_axis = "column", y_axis = "row", x_labels, y_labels, out;
};

// Returns x at the indices of its leading axes that `brackets` contains, such as "[0,1]".
nn::Tensor at_indices(nn::Tensor x, const std::string& brackets) {
  const std::string shape = autograd::to_text(x.shape());
  for (const std::string& word : split(brackets.substr(1, brackets.size() - 2), ',')) {
    const auto index = parse_number<std::int64_t>(word);
    if (x.rank() <= 2 || !index || *index < 0 || *index >= x.size(0))
      usage_error("--name: {} does not fit shape {}; give indices of leading axes, such as [0]",
                  brackets, shape);
    x = select(x, 0, *index);
  }
  return x;
}

// Returns the tensor to draw and its name.
nn::NamedTensor read_tensor(const PlotArguments& a) {
  if (!a.file.ends_with(".safetensors"))
    usage_error(
        "heed plot draws a tensor of a FILE.safetensors, got '{}'{}; heed compare draws the "
        "curves of runs",
        a.file,
        std::filesystem::is_directory(a.file) ? ", a directory that is not a run directory" : "");
  const nn::SafeTensors file = nn::load_safetensors(a.file);
  std::vector<std::string> names;
  for (const nn::NamedTensor& t : file.tensors) names.push_back(t.name);
  if (names.empty()) usage_error("{} contains no tensors; choose another file", a.file);
  if (a.name.empty() && names.size() > 1)
    usage_error("{} contains {} tensors; choose one, as --name {}; heed info {} lists them", a.file,
                names.size(), plot::visible_text(names[0]), a.file);
  const std::string name = a.name.empty() ? names[0] : a.name;
  const std::size_t bracket = name.ends_with(']') ? name.rfind('[') : std::string::npos;
  if (const nn::Tensor whole = file.find(name.substr(0, bracket));
      bracket != std::string::npos && whole.defined())
    return {name, at_indices(whole, name.substr(bracket))};
  const nn::Tensor values = file.find(name);
  if (!values.defined())
    usage_error("--name: {} does not contain '{}'; the nearest is '{}'", a.file, name,
                nn::nearest(name, names));
  return {name, values};
}

// Returns the labels that --x-labels or --y-labels gives: a list separated by commas, or the lines
// of a file. Throws UsageError unless there are `count` labels.
std::vector<std::string> read_labels(const std::string& where, const std::string& given,
                                     Index count) {
  const bool is_file = autograd::is_file(given);
  std::string text = is_file ? lab::read_text(given, nn::kMaxLabelBytes) : given;
  if (is_file && text.ends_with('\n')) text.pop_back();
  std::vector<std::string> labels = split(text, is_file ? '\n' : ',');
  if (Index(labels.size()) != count)
    usage_error("{}: got {} labels, needs {}, separated by commas or as lines of a file", where,
                labels.size(), count);
  return labels;
}

// Throws UsageError if a finite value of x overflows in float32, the dtype of pictures, or if all
// values underflow. `narrow` is x as float32.
void check_float32(const nn::Tensor& x, const nn::Tensor& narrow) {
  if (x.dtype() != autograd::float64) return;
  const auto given = x.to_vector<double>();
  const auto drawn = narrow.to_vector<float>();
  const bool underflows = std::ranges::count(drawn, 0.0f) == std::ssize(drawn);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (std::isfinite(given[i]) && (std::isinf(drawn[i]) || (underflows && given[i] != 0)))
      usage_error(
          "the value {} is out of range for float32, which heed plot draws; scale the matrix first",
          given[i]);
}

// Adds a panel for each matrix of x, which has shape [..., rows, columns]. The title of a panel is
// the index of its matrix in the leading axes, such as "1, 0", without the axes of size 1.
void add_panels(plot::HeatmapGrid& grid, const nn::Tensor& x) {
  constexpr Index kLongest = 16'384, kMostPanels = 256, kMostColumns = 16;
  const Index rows = x.size(-2), cols = x.size(-1);
  if (x.numel() == 0)
    usage_error(
        "cannot draw a tensor without elements (matrices of {} x {}); choose another --name", rows,
        cols);
  const Index panels = x.numel() / (rows * cols);
  if (rows > kLongest || cols > kLongest || panels > kMostPanels)
    usage_error(
        "got {} matrices of {} x {}; heed plot draws up to {} matrices, of up to {} rows and "
        "columns; choose another --name, or save a smaller tensor",
        panels, rows, cols, kMostPanels, kLongest);
  const nn::Tensor all = contiguous(to(x, autograd::float32));
  check_float32(x, all);
  const float* values = all.data<float>();
  for (Index p = 0; p < panels; ++p, values += rows * cols) {
    std::string place;
    for (Index i = x.rank() - 3, left = p; i >= 0; left /= x.size(int(i)), --i)
      if (x.size(int(i)) > 1)
        place = std::to_string(left % x.size(int(i))) + (place.empty() ? "" : ", ") + place;
    std::vector<std::uint8_t> masked(std::size_t(rows * cols));
    std::transform(values, values + rows * cols, masked.begin(),
                   [](float v) { return std::uint8_t(v == -HUGE_VALF); });
    grid.panels.push_back(
        {place, int(rows), int(cols), {values, values + rows * cols}, std::move(masked)});
  }
  grid.panel_columns = int(x.rank() > 2 ? std::min(x.size(-3), kMostColumns) : 1);
  constexpr Index kPrinted = 16;
  grid.print_values = panels == 1 && std::max(rows, cols) <= kPrinted;
  const bool negative = std::any_of(all.data<float>(), all.data<float>() + all.numel(),
                                    [](float v) { return v < 0 && !std::isinf(v); });
  if (negative) grid.scale = plot::ColorScale::kDiverging;
}

plot::HeatmapGrid plot_grid(const PlotArguments& a, const Command& c) {
  const nn::NamedTensor m = read_tensor(a);
  if (m.tensor.rank() < 2)
    usage_error("heed plot needs a tensor of 2 or more axes, got {}; choose another --name",
                m.tensor.rank());
  plot::HeatmapGrid grid;
  add_panels(grid, m.tensor);
  if (c.given("y-labels"))
    grid.row_labels = read_labels("--y-labels", a.y_labels, m.tensor.size(-2));
  if (c.given("x-labels"))
    grid.col_labels = read_labels("--x-labels", a.x_labels, m.tensor.size(-1));
  grid.row_axis = a.y_axis, grid.col_axis = a.x_axis;
  const std::string file = std::filesystem::path(a.file).filename().string();
  grid.title = a.title.empty() ? file + ": " + m.name : a.title;
  grid.value_name = "value";
  return grid;
}

// Returns the default of --out: beside FILE, with its name. Of a run, such as runs/lr0.1, the name
// is that of the directory with .png after it.
std::filesystem::path default_out(std::filesystem::path file) {
  if (!std::filesystem::is_directory(file)) return file.replace_extension(".png");
  const std::string name = file.filename().string();
  if (name.empty() || name == "." || name == "..") file = std::filesystem::canonical(file);
  return file += ".png";
}

// Writes the picture to --out.
Files draw(const PlotArguments& a, const Picture& picture, PictureSource source = {}) {
  const std::filesystem::path out =
      a.out.empty() ? default_out(a.file) : std::filesystem::path(a.out);
  if (a.out.empty() && std::filesystem::is_symlink(out))
    fail<autograd::IoError>("cannot write " + out.string(),
                            "it is a symbolic link; choose another file with --out");
  const std::string extension = out.extension().string();
  if (extension != ".png" && extension != ".svg")
    usage_error("--out: needs a FILE.png or FILE.svg, got '{}'", a.out);
  source.formats = {extension.substr(1)};
  return write_picture(out, picture, source);
}

Out plot_tensor(const PlotArguments& a, const Command& c) {
  const plot::HeatmapGrid grid = plot_grid(a, c);
  const plot::Panel& first = grid.panels.front();
  const std::string matrices =
      grid.panels.size() == 1 ? "A matrix" : fmt::format("{} matrices", grid.panels.size());
  const Files files = draw(
      a,
      {"", grid, fmt::format("{} of {} rows and {} columns.", matrices, first.rows, first.cols)});
  Out out;
  out.set("file", files.front().string());
  out.files(files);
  out.set("panels", grid.panels.size());
  out.set("rows", first.rows);
  out.set("columns", first.cols);
  return out;
}

// Draws the picture that heed train writes as loss.png.
Out plot_loss(const PlotArguments& a) {
  const lab::RunFolder folder(a.file);
  const lab::LoadedRun run = open_run(folder.path(), lab::RunFolder::kState, lab::Use::kPrompts);
  std::optional<lab::Evaluation> last;
  if (const auto row = folder.summary().last_evaluation) {
    last.emplace().loss = row->eval_loss;
    if (std::isfinite(row->eval_optimal)) last->optimal = row->eval_optimal;
  }
  const PictureSource source = source_of(folder.path(), run.model);
  const Picture picture =
      loss_picture(folder.load().whole_history(), run.task->info(), last, source);
  const Files files = draw(a, picture, source);
  Out out;
  out.set("file", files.front().string());
  out.files(files);
  return out;
}

constexpr const char* kPlotNotes =
    R"(Of a run directory, the loss while training is drawn.

If an array has more than two dimensions, the last two are rows and columns, and each matrix
is a panel. -inf is drawn in light gray, as masked, and nan in gray. An existing picture is
replaced.

C++ programs can draw with the library heed::plot: see tools/plot/README.md.)";

}  // namespace

void plot_command(Command& c) {
  c.name = "plot", c.what = "draw a tensor of a .safetensors file, or the loss of a run";
  c.examples =
      "  heed plot runs/induction-1/study/arrays.safetensors \\\n"
      "    --name 'blocks.1.attn.hook_pattern[0,1]'\n"
      "  heed plot runs/induction-1 --out loss.svg";
  c.notes = kPlotNotes;
  auto a = std::make_shared<PlotArguments>();
  c.arguments = 1;
  c.add("Options",
        {{"file", a->file, "FILE", "the .safetensors file, or a run directory"},
         lab::Setting("name", a->name, "TENSOR", "the tensor, or a part of it, such as 'x[0,1]'")
             .shows("the only one"),
         lab::Setting("x-labels", a->x_labels, "A,B,...|FILE",
                      "labels of the columns: a list or the lines of a file")
             .shows("numbers"),
         lab::Setting("y-labels", a->y_labels, "A,B,...|FILE",
                      "labels of the rows: a list or the lines of a file")
             .shows("numbers"),
         {"x-axis", a->x_axis, "TEXT", "name of the columns"},
         {"y-axis", a->y_axis, "TEXT", "name of the rows"},
         lab::Setting("title", a->title, "TEXT", "title above the picture")
             .shows("the names of file and tensor"),
         lab::Setting("out", a->out, "FILE.png", "the picture, or FILE.svg")
             .shows("FILE, ending in .png")});
  c.add_common(Command::kJson);
  c.mark(&lab::Setting::required, {"file"});
  c.modes = {
      {.key = "file",
       .when = [](const Command& command) { return lab::RunFolder(command.text("file")).is_run(); },
       .label = "of a run",
       .accepts = c.only({"file", "out"}),
       .keys = "file files",
       .run = [a](const Command&) { return plot_loss(*a); }},
      {.keys = "file files panels rows columns",
       .run = [a](const Command& command) { return plot_tensor(*a, command); }}};
}

}  // namespace heed
