# Writes the man page OUTPUT from the help texts of PROGRAM (heed) and of each of its commands.
# Run: cmake -DPROGRAM=build/release/heed -DVERSION=0.1.0 -DOUTPUT=heed.1 -P tools/package/man.cmake
cmake_policy(VERSION 3.24)

# Sets the variable `result` to the help text of `heed ARGN`, escaped so that roff prints the text unchanged.
function(help_text result)
  execute_process(COMMAND ${PROGRAM} ${ARGN} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

help_text(text)
set(page ".TH HEED 1 \"\" \"heed ${VERSION}\"
.SH NAME
heed \\- train toy causal models, see the gradients inside attention, check every gradient
.SH SYNOPSIS
.B heed
.I COMMAND
[options]
.SH DESCRIPTION
.EX
${text}.EE
")
# Finds the lines below "Commands:", up to an empty line. Each contains the name and description of a command.
string(REGEX MATCH "\nCommands:\n(  [^\n]*\n)+" block "${text}")
string(REGEX MATCHALL "\n  [a-z]+" commands "${block}")
if(NOT commands)
  message(FATAL_ERROR "${PROGRAM} --help lists no commands")
endif()
foreach(command ${commands})
  string(STRIP "${command}" command)
  help_text(text ${command})
  string(TOUPPER ${command} title)
  string(APPEND page ".SH HEED ${title}\n.EX\n${text}.EE\n")
endforeach()
file(WRITE ${OUTPUT} "${page}")
