// Compressed bytes for tests: of this room, and of those that read data files.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "base/error.h"

namespace shoehorn {

// One member.
inline std::string gzip(std::string_view text) {
  z_stream stream = {};
  constexpr int kGzipHeader = 16;
  CHECK(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipHeader + MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) == Z_OK,
        "deflateInit2");
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

// One frame with a checksum. `window_log` above 0 sets the size of its window, in bits.
inline std::string zstandard(std::string_view text, int window_log = 0) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) {
    // Of content whose size is known the window is no larger.
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  }
  std::string compressed(ZSTD_compressBound(text.size()) + ZSTD_CStreamOutSize(), '\0');
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer out{compressed.data(), compressed.size(), 0};
  // In two steps, since a single one tells the size.
  CHECK(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush)) == 0, "compress");
  CHECK(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) == 0, "compress");
  compressed.resize(out.pos);
  ZSTD_freeCCtx(context);
  return compressed;
}

}  // namespace shoehorn
