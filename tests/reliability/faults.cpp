/// @file
/// A library to preload (LD_PRELOAD): makes system calls on files below one folder fail, or the
/// process get a signal, at calls that are named by their number. So a run can be repeated.
///
///   LLMC_FAULTS_BELOW   the folder; calls on other files are neither counted nor touched
///   LLMC_FAULTS         "NUMBER:WHAT:TIMES,...": from that call on, the next TIMES calls to which
///                       WHAT can happen; it is
///                         ENOSPC, EDQUOT, EIO, EINTR or EMFILE: the call fails so
///                         short: reads or writes half of what was asked for
///                         INT, TERM, HUP or PIPE: this signal comes before the call
///                         KILL: so does this one, and a write is torn
///                         pause: 20 ms, so that another process comes first
///   LLMC_FAULTS_LOG     a file that gets a line for each that happened, and the number of calls
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum kind : unsigned {
  opening = 1,
  creating = 2,
  reading = 4,
  writing = 8,
  syncing = 16,
  closing = 32,
  naming = 64,  // rename, mkdir, link
  sizing = 128,
  removing = 256,
  printing = 512,
  locking = 1024
};
constexpr unsigned any = ~0u;

struct event {
  long number;
  int error;   // errno; 0: not an error
  int signal;  // 0: none
  bool is_short;
  unsigned kinds;  // to which it can happen
  long times;
  const char* name;
};

struct cause {
  const char* name;
  int error;
  int signal;
  bool is_short;
  unsigned kinds;
};
constexpr unsigned filling = creating | writing | syncing | naming | sizing | printing;
constexpr cause causes[] = {
    {"ENOSPC", ENOSPC, 0, false, filling},
    {"EDQUOT", EDQUOT, 0, false, filling},
    {"EIO", EIO, 0, false, reading | writing | syncing | closing | naming | sizing | printing},
    {"EINTR", EINTR, 0, false,
     opening | creating | reading | writing | syncing | closing | locking},
    {"EMFILE", EMFILE, 0, false, opening | creating},
    {"short", 0, 0, true, reading | writing},
    {"INT", 0, SIGINT, false, any},
    {"TERM", 0, SIGTERM, false, any},
    {"HUP", 0, SIGHUP, false, any},
    {"PIPE", 0, SIGPIPE, false, any},
    {"KILL", 0, SIGKILL, false, any},
    {"pause", 0, 0, false, any},
};

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<event> parse(const std::string& text) {
  std::vector<event> events;
  for (std::size_t at = 0; at < text.size();) {
    char name[16];
    event e{};
    int end = 0;
    bool known = std::sscanf(text.c_str() + at, "%ld:%15[a-zA-Z]:%ld%n", &e.number, name, &e.times,
                             &end) == 3;
    if (known) {
      known = false;
      for (const cause& c : causes) {
        if (std::strcmp(c.name, name) != 0) continue;
        events.push_back({e.number, c.error, c.signal, c.is_short, c.kinds, e.times, c.name});
        known = true;
      }
    }
    if (!known) {
      std::fprintf(stderr, "LLMC_FAULTS: not understood: %s\n", text.c_str() + at);
      std::abort();
    }
    at += static_cast<std::size_t>(end) + 1;
  }
  return events;
}

class faults {
 public:
  faults() : below_(setting("LLMC_FAULTS_BELOW")), events_(parse(setting("LLMC_FAULTS"))) {
    const std::string log = setting("LLMC_FAULTS_LOG");
    if (!log.empty()) {
      log_ = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, log.c_str(),
                                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    }
  }

  bool watches(const char* path) const {
    if (below_.empty() || path == nullptr) return false;
    std::string whole = path;
    if (path[0] != '/') {
      char folder[4096];
      if (::getcwd(folder, sizeof folder) == nullptr) return false;
      whole = std::string(folder) + "/" + path;
    }
    return whole.compare(0, below_.size(), below_) == 0;
  }
  bool watches(int descriptor) const {
    return descriptor >= 0 && descriptor < most && watched_[static_cast<std::size_t>(descriptor)];
  }
  void watch(int descriptor, bool so) {
    if (descriptor >= 0 && descriptor < most) watched_[static_cast<std::size_t>(descriptor)] = so;
  }

  void note_count() const { note("calls " + std::to_string(count_) + "\n"); }

  struct outcome {
    int error = 0;
    bool is_short = false;
    bool torn = false;  // write half, then die
  };

  /// Counts a call, and says what happens to it.
  outcome next(unsigned kind, const char* name) {
    const long number = ++count_;
    outcome result;
    for (event& e : events_) {
      if (number < e.number || e.times == 0 || (kind & e.kinds) == 0) continue;
      if (result.error != 0 && e.error != 0) continue;
      --e.times;
      note(std::to_string(number) + " " + name + " " + e.name + "\n");
      if (e.error != 0) result.error = e.error;
      if (e.is_short) result.is_short = true;
      if (e.signal == SIGKILL && kind == writing) {
        result.torn = true;
      } else if (e.signal != 0) {
        ::kill(::getpid(), e.signal);
      } else if (e.error == 0 && !e.is_short) {
        const timespec pause{0, 20'000'000};
        ::nanosleep(&pause, nullptr);
      }
    }
    return result;
  }

 private:
  static constexpr int most = 1024;

  void note(const std::string& line) const {
    if (log_ >= 0) ::syscall(SYS_write, log_, line.data(), line.size());
  }

  std::string below_;
  std::vector<event> events_;
  int log_ = -1;
  std::atomic<long> count_{0};
  std::array<std::atomic<bool>, most> watched_{};
};

/// Never destroyed: files are closed after all that is static is gone.
faults& the_faults() {
  static faults& all = *new faults;
  return all;
}

[[gnu::destructor]] void at_exit() {
  the_faults().note_count();
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// A call that fails with -1: counted, made to fail, or made.
template <class Call>
auto made(bool watched, unsigned kind, const char* name, Call call) -> decltype(call()) {
  if (watched) {
    if (const int error = the_faults().next(kind, name).error) {
      errno = error;
      return -1;
    }
  }
  return call();
}

/// A transfer: as above, or of half the bytes.
template <class Call>
ssize_t transfer(int descriptor, unsigned kind, const char* name, std::size_t bytes, Call call) {
  if (!the_faults().watches(descriptor)) return call(bytes);
  const faults::outcome happens = the_faults().next(kind, name);
  if (happens.torn) {
    call(bytes / 2);
    ::kill(::getpid(), SIGKILL);
  }
  if (happens.error != 0) {
    errno = happens.error;
    return -1;
  }
  return call(happens.is_short ? std::max<std::size_t>(bytes / 2, std::min<std::size_t>(bytes, 1))
                               : bytes);
}

int open_file(const char* name, int folder, const char* path, int flags, mode_t mode) {
  const bool watched = the_faults().watches(path);
  const int descriptor = made(watched, (flags & O_CREAT) != 0 ? creating : opening, name, [&] {
    return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  });
  the_faults().watch(descriptor, watched);
  return descriptor;
}

mode_t mode_of(int flags, std::va_list arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

std::FILE* open_stream(const char* name, const char* path, const char* mode) {
  const bool watched = the_faults().watches(path);
  if (watched) {
    const unsigned kind = mode[0] == 'r' ? opening : creating;
    if (const int error = the_faults().next(kind, name).error) {
      errno = error;
      return nullptr;
    }
  }
  std::FILE* const stream = real<std::FILE*(const char*, const char*)>(name)(path, mode);
  if (stream != nullptr) the_faults().watch(::fileno(stream), watched);
  return stream;
}

/// Whether a stream's call fails. Standard output is counted, too, but what happens there is a pipe
/// or a full device, which need no library.
bool stream_fails(std::FILE* stream, const char* name) {
  if (stream == nullptr) return false;
  if (stream == stdout) {
    the_faults().next(any & ~(filling | reading | opening | closing), name);
    return false;
  }
  if (!the_faults().watches(::fileno(stream))) return false;
  const int error = the_faults().next(printing, name).error;
  if (error == 0) return false;
  stream->_flags |= 0x20;  // glibc's sign of an error, at which ferror() looks
  errno = error;
  return true;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("open", AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_file("openat", folder, path, flags, mode);
}

std::FILE* fopen(const char* path, const char* mode) {
  return open_stream("fopen", path, mode);
}
std::FILE* fopen64(const char* path, const char* mode) {
  return open_stream("fopen64", path, mode);
}
int fputs(const char* text, std::FILE* stream) {
  if (stream != stdout && stream_fails(stream, "fputs")) return EOF;
  return real<int(const char*, std::FILE*)>("fputs")(text, stream);
}
std::size_t fwrite(const void* from, std::size_t size, std::size_t count, std::FILE* stream) {
  if (stream != stdout && stream_fails(stream, "fwrite")) return 0;
  return real<std::size_t(const void*, std::size_t, std::size_t, std::FILE*)>("fwrite")(
      from, size, count, stream);
}
int fflush(std::FILE* stream) {
  if (stream_fails(stream, "fflush")) return EOF;
  return real<int(std::FILE*)>("fflush")(stream);
}

/// The descriptor is gone whatever close says.
int close(int descriptor) {
  const bool watched = the_faults().watches(descriptor);
  the_faults().watch(descriptor, false);
  const int done = static_cast<int>(::syscall(SYS_close, descriptor));
  return made(watched, closing, "close", [=] { return done; });
}

ssize_t read(int descriptor, void* to, std::size_t bytes) {
  return transfer(descriptor, reading, "read", bytes,
                  [=](std::size_t n) { return ::syscall(SYS_read, descriptor, to, n); });
}
ssize_t pread(int descriptor, void* to, std::size_t bytes, off_t at) {
  return transfer(descriptor, reading, "pread", bytes,
                  [=](std::size_t n) { return ::syscall(SYS_pread64, descriptor, to, n, at); });
}
ssize_t pread64(int descriptor, void* to, std::size_t bytes, off64_t at) {
  return pread(descriptor, to, bytes, at);
}
ssize_t write(int descriptor, const void* from, std::size_t bytes) {
  return transfer(descriptor, writing, "write", bytes,
                  [=](std::size_t n) { return ::syscall(SYS_write, descriptor, from, n); });
}
ssize_t pwrite(int descriptor, const void* from, std::size_t bytes, off_t at) {
  return transfer(descriptor, writing, "pwrite", bytes,
                  [=](std::size_t n) { return ::syscall(SYS_pwrite64, descriptor, from, n, at); });
}
ssize_t pwrite64(int descriptor, const void* from, std::size_t bytes, off64_t at) {
  return pwrite(descriptor, from, bytes, at);
}

int fsync(int descriptor) {
  return made(the_faults().watches(descriptor), syncing, "fsync",
              [=] { return static_cast<int>(::syscall(SYS_fsync, descriptor)); });
}
int fdatasync(int descriptor) {
  return made(the_faults().watches(descriptor), syncing, "fdatasync",
              [=] { return static_cast<int>(::syscall(SYS_fdatasync, descriptor)); });
}
int ftruncate(int descriptor, off_t size) {
  return made(the_faults().watches(descriptor), sizing, "ftruncate",
              [=] { return static_cast<int>(::syscall(SYS_ftruncate, descriptor, size)); });
}

/// By another name, since flock is also a struct.
int lock_file(int descriptor, int operation) asm("flock");
int lock_file(int descriptor, int operation) {
  return made(the_faults().watches(descriptor), locking, "flock",
              [=] { return static_cast<int>(::syscall(SYS_flock, descriptor, operation)); });
}

int rename(const char* from, const char* to) {
  return made(the_faults().watches(to), naming, "rename",
              [=] { return real<int(const char*, const char*)>("rename")(from, to); });
}
int link(const char* from, const char* to) {
  return made(the_faults().watches(to), naming, "link",
              [=] { return real<int(const char*, const char*)>("link")(from, to); });
}
int mkdir(const char* path, mode_t mode) {
  return made(the_faults().watches(path), naming, "mkdir",
              [=] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}
int unlink(const char* path) {
  return made(the_faults().watches(path), removing, "unlink",
              [=] { return real<int(const char*)>("unlink")(path); });
}

}  // extern "C"
