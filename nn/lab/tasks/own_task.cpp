// The record of a task that a program defines itself, in the weights files of its runs.
#include <algorithm>

#include "autograd/base/error.h"
#include "nn/io/json.h"
#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

using namespace autograd;

namespace {

class OwnPrompts : public Task {
 public:
  explicit OwnPrompts(TaskInfo info) : Task(std::move(info)) {}

  Index evaluation_size() const override { return 0; }

 private:
  Sequence draw(Generator&) const override {
    fail<ValueError>(info().name, "this task has only prompts; use the program that defines it");
  }
};

}  // namespace

std::map<std::string, std::string> saved_data(const TaskInfo& info) {
  std::map<std::string, std::string> data = info.data;
  std::vector<std::string> known = task_names();
  known.insert(known.end(), {"text", "lines"});
  if (std::ranges::count(known, info.name) == 0)
    data[kOwnTaskKey] = Json::object({{"vocabulary", info.vocabulary.symbols()},
                                      {"words", info.vocabulary.unit() == Unit::kWord},
                                      {"classes", info.classes},
                                      {"bos", info.bos},
                                      {"stop", info.stop},
                                      {"endless", info.endless},
                                      {"prompt", info.prompt}})
                            .dump();
  return data;
}

std::unique_ptr<Task> make_own_prompts(const std::string& name, Index context,
                                       const std::string& record) try {
  const Json json = Json::parse(record);
  const auto value = [&](const char* key) {
    if (const Json* found = json.find(key)) return *found;
    throw JsonError(std::string("has no ") + key);
  };
  std::vector<std::string> symbols;
  const Json list = value("vocabulary");
  for (const Json& symbol : list.items()) symbols.push_back(symbol.text());
  // Returns a number of at most `most`, or nothing for null.
  const auto number = [&](const char* key, std::size_t most) -> std::optional<Index> {
    const Json json_value = value(key);
    if (json_value == Json()) return {};
    const auto* n = json_value.as<std::uint64_t>();
    if (!n || *n > most) throw JsonError(std::string("has a number out of range: ") + key);
    return Index(*n);
  };
  const std::size_t size = symbols.size();
  TaskInfo info;
  info.name = name, info.prompt = value("prompt").text();
  const bool words = value("words") == Json(true);
  info.vocabulary = Vocabulary(std::move(symbols), words ? Unit::kWord : Unit::kChar);
  info.classes = number("classes", size).value_or(0), info.context = context;
  info.bos = number("bos", size - 1), info.stop = number("stop", size - 1);
  info.endless = value("endless") == Json(true);
  info.data[kOwnTaskKey] = record;
  if (info.classes < 1) throw JsonError("has no classes");
  return std::make_unique<OwnPrompts>(std::move(info));
} catch (const ValueError& e) {
  fail<IoError>(name, "use an intact copy of the weights file; its '", kOwnTaskKey, "' ", e.what());
}

}  // namespace heed::lab
