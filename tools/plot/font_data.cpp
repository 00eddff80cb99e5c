// Embeds the font file in the library. The assembler copies it, because a C array of 760 kB would
// take the compiler several seconds. `.hidden` keeps the symbol private to each program or library
// that links it.
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
