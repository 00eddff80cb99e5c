// The font file as bytes of the library. The assembler copies it in: a C array of 760 kB would take
// the compiler seconds. `.hidden`: each program that links the library has its own.
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl heed_font_file\n"
    ".hidden heed_font_file\n"
    ".type heed_font_file, %object\n"
    "heed_font_file:\n"
    ".incbin \"" HEED_FONT
    "\"\n"
    ".size heed_font_file, . - heed_font_file\n"
    ".popsection\n");
