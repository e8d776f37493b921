# tests what was just installed (packaging/selftest); nothing is installed where a number is wrong
execute_process(COMMAND sh "${CMAKE_CURRENT_LIST_DIR}/selftest" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}" RESULT_VARIABLE status)
if(status)
  message(FATAL_ERROR "mgpuc selftest failed")
endif()
