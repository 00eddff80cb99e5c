// heed man: the manual page heed(1) in roff, from the commands' own tables.
#include "tools/heed/commands.h"
#include "tools/heed/output.h"

namespace heed {
namespace {

// Text that roff prints as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() || out.back() == '\n')
      if (c == '.' || c == '\'') out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

void print_command(const Command& c) {
  print(".SS heed {}\n{}.\n", c.name, roff(c.what));
  if (!c.notes.empty()) print(".PP\n.nf\n{}\n.fi\n", roff(c.notes));
  for (const nn::Setting& s : c.settings) {
    const bool negatable = s.kind == nn::Setting::Kind::kSwitch && !s.shown.empty();
    print(".TP\n\\fB{}\\fR{}{}\n{}\n", roff("--" + s.key),
          negatable ? ", \\fB" + roff("--no-" + s.key) + "\\fR" : "",
          s.unit.empty() ? "" : " \\fI" + s.unit + "\\fR", roff(s.description()));
  }
  print(".PP\n.nf\n{}\n.fi\n", roff(c.examples));
}

}  // namespace

std::unique_ptr<Command> man_command() {
  auto c = std::make_unique<Command>();
  c->name = "man", c->what = "print the manual page in roff", c->hidden = true;
  c->examples = "  heed man > heed.1";
  c->run = [](const Command&) {
    print(
        ".TH HEED 1 \"\" \"heed {}\"\n.SH NAME\nheed \\- train toy causal models, and prove their "
        "gradients\n.SH SYNOPSIS\n.B heed\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIARGUMENT\\fR]\n.SH "
        "COMMANDS\n",
        HEED_VERSION);
    for (const auto& command : all_commands())
      if (!command->hidden) print_command(*command);
    print(".SH EXIT STATUS\n.nf\n{}\n.fi\n", roff(kExitCodes));
    return int(kOk);
  };
  return c;
}

}  // namespace heed
