/// @file
/// Work that is done on several threads, and whose results are used in the order in which it came.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gpt2_trainer {

/// Only so much is under way at once, so memory is bounded. What a job throws is thrown where its
/// result would be used. At the end of the object jobs that have not begun are dropped.
template <class Result>
class ordered_workers {
 public:
  /// `use` runs on the thread that calls `add` and `finish`.
  ordered_workers(int threads, std::function<void(Result&&)> use) : use_(std::move(use)) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ordered_workers(const ordered_workers&) = delete;
  ~ordered_workers() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void add(std::function<Result()> job) {
    while (results_.size() > 2 * threads_.size()) use_first();
    std::packaged_task<Result()> task(std::move(job));
    results_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  void finish() {
    while (!results_.empty()) use_first();
  }

 private:
  void use_first() {
    std::future<Result> first = std::move(results_.front());
    results_.pop_front();
    use_(first.get());
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::packaged_task<Result()> task = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::function<void(Result&&)> use_;
  std::deque<std::future<Result>> results_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result()>> waiting_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gpt2_trainer
