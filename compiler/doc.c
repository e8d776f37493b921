#include "compiler/command.h"
int command_doc(int argc, char **argv) { (void)argc; (void)argv; return 0; }
