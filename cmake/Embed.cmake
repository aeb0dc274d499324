# ampscale_embed(target symbol file): compiles the bytes of `file` into `target` as
#   extern const unsigned char symbol[]; extern const size_t symbol_size;
# A NUL follows the bytes, so text may be used as a string. symbol_size does not count the NUL.
function(ampscale_embed target symbol file)
  get_filename_component(file ${file} ABSOLUTE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DSYMBOL=${symbol}
            -P ${CMAKE_SOURCE_DIR}/cmake/EmbedFile.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/EmbedFile.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
