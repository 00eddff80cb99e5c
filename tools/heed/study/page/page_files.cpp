// Defines the files of the page as strings. The assembler copies the files into the program
// (.incbin).
#define HEED_PAGE_TEXT(name, files)                                                   \
  asm(".pushsection .rodata\n"                                                        \
      ".globl " name "; .hidden " name "; .type " name ", %object\n" name ":\n" files \
      ".byte 0; .size " name ", . - " name                                            \
      "\n"                                                                            \
      ".popsection\n")
#define HEED_PAGE_FILE(file) ".incbin \"" HEED_PAGE_FOLDER "/" file "\"\n"

HEED_PAGE_TEXT("heed_page_html", HEED_PAGE_FILE("report.html"));
HEED_PAGE_TEXT("heed_page_style", HEED_PAGE_FILE("report.css"));
HEED_PAGE_TEXT("heed_page_script", HEED_PAGE_FILE("maps.js") HEED_PAGE_FILE("elements.js")
                                       HEED_PAGE_FILE("views.js") HEED_PAGE_FILE("report.js"));
