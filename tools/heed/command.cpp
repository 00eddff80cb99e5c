#include "tools/heed/command.h"

#include <charconv>
#include <cmath>

#include "autograd/base/files.h"
#include "autograd/base/parallel.h"
#include "nn/io/nearest.h"
#include "nn/io/toml.h"
#include "tools/heed/output.h"

namespace heed {
namespace {

// All of raw as a T, or nothing.
template <class T>
bool read_number(const std::string& raw, T& value) {
  const char* end = raw.data() + raw.size();
  const auto [stop, error] = std::from_chars(raw.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

std::int64_t parse_integer(const std::string& where, const std::string& raw, std::int64_t low,
                           std::int64_t high) {
  const std::string range = low == INT64_MIN && high == INT64_MAX
                                ? std::string()
                                : fmt::format(" from {} to {}", low, high);
  std::int64_t value = 0;
  if (!read_number(raw, value)) {
    double real = 0;
    const bool whole = read_number(raw, real) && std::abs(real) < 1e15 && real == std::floor(real);
    usage_error("{} needs a whole number{}, got '{}'{}", where, range, raw,
                whole ? fmt::format("; write {:.0f}", real) : "");
  }
  if (value < low || value > high)
    usage_error("{} needs a whole number{}, got {}", where, range, raw);
  return value;
}

double parse_real(const std::string& where, const std::string& raw, double low, double high) {
  double value = 0;
  if (!read_number(raw, value) || !std::isfinite(value) || !(value >= low && value <= high))
    usage_error("{} needs a number{}, got '{}'", where,
                std::isfinite(high)  ? fmt::format(" from {} to {}", low, high)
                : std::isfinite(low) ? fmt::format(" of at least {}", low)
                                     : "",
                raw);
  return value;
}

bool parse_bool(const std::string& where, const std::string& raw) {
  if (raw != "true" && raw != "false") usage_error("{} is true or false, got '{}'", where, raw);
  return raw == "true";
}

Command::Command(CLI::App& app, const std::string& name, const std::string& what,
                 const std::string& examples, const std::string& notes)
    : app_(app.add_subcommand(name, what)), name_(name) {
  app_->group("Commands");
  app_->allow_extras();  // unknown options are ours to report
  app_->footer((notes.empty() ? "" : notes + "\n\n") + "Examples:\n" + examples);
}

void Command::add(const std::string& key, CLI::Option* option, CLI::Option* negation, Set set) {
  option->group(group_);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  entries_.push_back({key, option, negation, std::move(set), false});
}

void Command::option(const std::string& key, const std::string& type,
                     const std::string& shown_default, const std::string& help, Set set) {
  CLI::Option* o = app_->add_option(
      "--" + key, [](const CLI::results_t&) { return true; }, help);
  o->type_name(type)->expected(1);
  if (!shown_default.empty()) o->default_str(shown_default);
  add(key, o, nullptr, std::move(set));
}

void Command::switch_option(const std::string& key, const std::string& help, bool negatable,
                            Set set) {
  CLI::Option* yes = app_->add_flag("--" + key, help);
  CLI::Option* no = nullptr;
  if (negatable) {
    yes->option_text("/ --no-" + key);
    no = app_->add_flag("--no-" + key)->group("");
  }
  add(key, yes, no, std::move(set));
}

void Command::integer(const std::string& key, std::int64_t& value, std::int64_t low,
                      std::int64_t high, const std::string& help) {
  option(key, "N", std::to_string(value), help,
         [&value, low, high](const std::string& where, const std::string& raw) {
           value = parse_integer(where, raw, low, high);
         });
}

void Command::real(const std::string& key, double& value, double low, double high,
                   const std::string& help) {
  option(key, "X", fmt::format("{}", value), help,
         [&value, low, high](const std::string& where, const std::string& raw) {
           value = parse_real(where, raw, low, high);
         });
}

void Command::text(const std::string& key, std::string& value, const std::string& type,
                   const std::string& help) {
  option(key, type, value, help,
         [&value](const std::string&, const std::string& raw) { value = raw; });
}

void Command::flag(const std::string& key, bool& value, const std::string& help, bool negatable) {
  switch_option(key, help, negatable, [&value](const std::string& where, const std::string& raw) {
    value = parse_bool(where, raw);
  });
}

void Command::positional(const std::string& key, const std::string& help, Set set, bool many) {
  CLI::Option* o = app_->add_option(
      key, [](const CLI::results_t&) { return true; }, help);
  o->type_name("")->expected(many ? -1 : 1);
  o->multi_option_policy(many ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  entries_.push_back({key, o, nullptr, std::move(set), many});
}

void Command::positional(const std::string& key, std::string& value, const std::string& help) {
  positional(key, help, [&value](const std::string&, const std::string& raw) { value = raw; });
}

void Command::config_option() {
  text("config", config_, "FILE", "TOML file with a section [" + name_ + "]; options override it");
}

void Command::threads_option() {
  option("threads", "N", "", "threads; results do not depend on it (default: the cores)",
         [this](const std::string& where, const std::string& raw) {
           threads_ = parse_integer(where, raw, 1, 256);
         });
}

void Command::json_option() { flag("json", json, "print one JSON object on one line to stdout"); }

std::vector<std::string> Command::keys() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_) names.push_back(e.key);
  return names;
}

const Command::Entry* Command::find(const std::string& key) const {
  for (const Entry& e : entries_)
    if (e.key == key) return &e;
  return nullptr;
}

void Command::read_config_file(const std::vector<std::unique_ptr<Command>>& all) {
  std::vector<std::string> sections;
  for (const auto& c : all) sections.push_back(c->name());
  for (const nn::TomlItem& item : nn::read_toml(autograd::read_file(config_), config_)) {
    if (item.section.empty())
      usage_error("{}: '{}' stands outside a section; put it under [{}]", config_, item.key, name_);
    const auto owner = std::find_if(all.begin(), all.end(),
                                    [&](const auto& c) { return item.section == c->name(); });
    if (owner == all.end())
      usage_error("{}: there is no section [{}]; the nearest is [{}]", config_, item.section,
                  nn::nearest(item.section, sections));
    if (item.key.empty()) continue;
    const Entry* entry = (*owner)->find(item.key);
    if (!entry)
      usage_error("{}: [{}] has no key '{}'; the nearest is '{}'", config_, (*owner)->name(),
                  item.key, nn::nearest(item.key, (*owner)->keys()));
    if (owner->get() != this) continue;
    const std::string where = fmt::format("{}: {}", config_, item.key);
    for (const std::string& value : item.values) {
      if (item.values.size() > 1 && !entry->many)
        usage_error("{} takes one value, got {}", where, item.values.size());
      if (entry->option->count() == 0 && !(entry->negation && entry->negation->count() > 0)) {
        entry->set(where, value);
        given_.insert(item.key);
      }
    }
  }
}

void Command::check_values(const std::vector<std::string>& arguments) const {
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty()) {
      for (const Entry& e : entries_)
        if (e.option->get_positional()) usage_error("{} needs a value, got ''", e.key);
    }
    if (!argument.starts_with("--")) continue;
    const std::size_t equals = argument.find('=');
    const std::string key = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const Entry* entry = find(key);
    if (!entry || entry->option->get_positional() || entry->option->get_expected_min() == 0)
      continue;
    bool has_value = equals + 1 < argument.size();
    if (equals == std::string::npos) {
      ++i;
      has_value = i < arguments.size() && !arguments[i].starts_with("--") &&
                  (!arguments[i].empty() || key == "prompt");
    }
    if (!has_value) usage_error("--{} needs a value; see heed {} --help", key, name_);
  }
}

void Command::apply(const std::vector<std::unique_ptr<Command>>& all) {
  const auto from_command_line = [&](const Entry& e) {
    const bool no = e.negation && e.negation->count() > 0;
    if (no && e.option->count() > 0) usage_error("--{0} and --no-{0} contradict", e.key);
    if (no) e.set("--no-" + e.key, "false");
    const std::vector<std::string> values = e.option->results();  // as typed
    for (std::size_t i = e.many || values.empty() ? 0 : values.size() - 1; i < values.size(); ++i)
      e.set(e.option->get_positional() ? e.key : "--" + e.key, values[i]);
    if (no || !values.empty()) given_.insert(e.key);
  };
  if (const Entry* config = find("config")) from_command_line(*config);
  if (given("config")) read_config_file(all);
  for (const Entry& e : entries_) from_command_line(e);
  if (threads_ > 0) autograd::set_num_threads(int(threads_));
}

namespace {

struct Foreign {
  const char* theirs;  // with - for _
  const char* ours;    // an option, or a sentence
};
constexpr Foreign kForeign[] = {
    // nanoGPT
    {"n-layer", "layers"},
    {"n-head", "heads"},
    {"n-embd", "d-model"},
    {"block-size", "context"},
    {"batch-size", "batch"},
    {"max-iters", "steps"},
    {"learning-rate", "lr"},
    {"warmup-iters", "warmup"},
    {"eval-interval", "eval-every"},
    {"eval-iters", "eval-batch"},
    {"grad-clip", "clip"},
    {"out-dir", "out"},
    {"init-from", "resume"},
    {"dataset", "text"},
    {"max-new-tokens", "tokens"},
    {"num-samples", "tokens"},
    {"start", "prompt"},
    // PyTorch, Lightning, transformers
    {"n-layers", "layers"},
    {"num-layers", "layers"},
    {"num-hidden-layers", "layers"},
    {"n-heads", "heads"},
    {"nhead", "heads"},
    {"num-heads", "heads"},
    {"num-attention-heads", "heads"},
    {"hidden-size", "d-model"},
    {"embed-dim", "d-model"},
    {"n-ctx", "context"},
    {"seq-len", "context"},
    {"max-length", "context"},
    {"max-steps", "steps"},
    {"num-steps", "steps"},
    {"iterations", "steps"},
    {"lr-scheduler", "schedule"},
    {"lr-scheduler-type", "schedule"},
    {"scheduler", "schedule"},
    {"warmup-steps", "warmup"},
    {"max-grad-norm", "clip"},
    {"max-norm", "clip"},
    {"gradient-clip-val", "clip"},
    {"wd", "weight-decay"},
    {"adam-epsilon", "eps"},
    {"eval-steps", "eval-every"},
    {"save-steps", "save-every"},
    {"num-workers", "threads"},
    {"num-threads", "threads"},
    {"output-dir", "out"},
    {"manual-seed", "seed"},
    {"resume-from-checkpoint", "resume"},
    {"checkpoint", "resume"},
    {"fast-dev-run", "dry-run"},
    {"overfit-batches", "overfit-batch"},
    {"dropout-p", "dropout"},
    {"temp", "temperature"},
    // no counterpart
    {"epochs", "training is counted in --steps, and data is drawn without end"},
    {"num-epochs", "training is counted in --steps, and data is drawn without end"},
    {"max-epochs", "training is counted in --steps, and data is drawn without end"},
    {"num-train-epochs", "training is counted in --steps, and data is drawn without end"},
    {"lr-decay-iters", "the learning rate decays over --steps"},
    {"decay-lr", "the course of the learning rate is --schedule"},
    {"optimizer", "it is AdamW: --lr --beta1 --beta2 --eps --weight-decay"},
    {"device", "heed runs on the CPU; leave it out"},
    {"compile", "heed is compiled; leave it out"},
};

}  // namespace

std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys) {
  const std::string given = argument.substr(0, argument.find('='));
  std::string name = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  for (char& c : name)
    if (c == '_') c = '-';
  const auto has = [&](const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  const std::string help = fmt::format("see heed{}{} --help", command.empty() ? "" : " ", command);
  if (has(name)) return fmt::format("there is no {}; write --{}", given, name);
  for (const Foreign& f : kForeign) {
    if (name != f.theirs) continue;
    if (has(f.ours)) return fmt::format("there is no {}; here it is --{}", given, f.ours);
    if (std::string_view(f.ours).find(' ') != std::string_view::npos && has("steps"))
      return fmt::format("there is no {}: {}", given, f.ours);
  }
  const std::string near = name.size() > 1 ? nn::nearest(name, keys) : "";
  if (near.empty()) return fmt::format("there is no {}; {}", given, help);
  return fmt::format("there is no {}; did you mean --{}? {}", given, near, help);
}

}  // namespace heed
