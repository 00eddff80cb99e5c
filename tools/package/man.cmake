# Writes the man page OUTPUT from `PROGRAM --help all`, where PROGRAM is heed.
# Run: cmake -DPROGRAM=build/release/heed -DVERSION=0.1.0 -DOUTPUT=heed.1 -P tools/package/man.cmake
cmake_policy(VERSION 3.24)

execute_process(COMMAND ${PROGRAM} --help all OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
# Escapes the text so that roff prints it unchanged.
string(REPLACE "\\" "\\e" text "${text}")
string(REPLACE "-" "\\-" text "${text}")
string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
# The help of each command begins with a line such as "heed train: train a model" after an empty line.
string(REGEX REPLACE "\n\n(heed [a-z]+): " "\n.EE\n.SH \\1\n.EX\n" text "${text}")
file(WRITE ${OUTPUT} ".TH HEED 1 \"\" \"heed ${VERSION}\"
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
