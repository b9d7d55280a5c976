// A pretend GPU: PyTorch's device for outsiders, PrivateUse1, over the host's memory.
//
// Every kernel runs at once, on the CPU, so values come out right whatever the order. What is kept is the order that a
// GPU would promise: each stream is a queue of tasks, and a vector clock per queue says which tasks of the others are
// done before its next one begins. Only events, waits and the autograd engine move these clocks. An access to memory
// that is not ordered after the one it depends on is noted as a race, and so is memory used again too early.
//
// Time is pretended too: a task ends some milliseconds after its queue, and what the queue waits for, have got there.

#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

constexpr auto GPU = c10::DeviceType::PrivateUse1;
constexpr int DEVICES = 3;
constexpr double KERNEL = 0.01;  // milliseconds

// ---- queues, their clocks, and the host that may wait for them ----

using Queue = std::pair<int, int64_t>;     // device, stream
using Clock = std::map<Queue, uint64_t>;   // of each queue: so many of its tasks are done

struct Line {
  Clock clock;
  double time = 0;
};

std::recursive_mutex everything;
using Locked = std::lock_guard<std::recursive_mutex>;

std::map<Queue, Line> lines;
Line host;  // what some thread of the host has waited for
std::vector<std::string> races;
bool peer_access = true, broken = false;

thread_local int device_now = 0;
thread_local std::map<int, int64_t> stream_now;
thread_local bool in_kernel = false;

Queue queue_of(const Stream& stream) { return {stream.device_index(), stream.id()}; }
Queue queue_now(int device) { return {device, stream_now[device]}; }
std::string name(Queue queue) { return "gpu " + std::to_string(queue.first) + " stream " + std::to_string(queue.second); }

void wait(Line& line, const Line& other) {
  for (auto& [queue, task] : other.clock) line.clock[queue] = std::max(line.clock[queue], task);
  line.time = std::max(line.time, other.time);
}

void check_health() { TORCH_CHECK(!broken, "CUDA error: device-side assert triggered"); }

uint64_t launch(Queue queue, double milliseconds = KERNEL) {
  check_health();
  Line& line = lines[queue];
  wait(line, host);
  line.time += milliseconds;
  return ++line.clock[queue];
}

// A copy to the host that nobody has waited for: until then the host sees rubbish.
struct Underway {
  Queue queue;
  uint64_t task;
  at::Tensor bytes, target;
};
std::vector<Underway> underway;

void host_waits(const Line& line) {
  wait(host, line);
  check_health();
  for (auto it = underway.begin(); it != underway.end();) {
    if (host.clock[it->queue] < it->task) { ++it; continue; }
    std::memcpy(it->target.mutable_data_ptr(), it->bytes.const_data_ptr(), it->bytes.nbytes());
    it = underway.erase(it);
  }
}

// ---- memory: a block remembers who touched it, also after it was freed, until it is used again ----

struct Access {
  Queue queue;
  uint64_t task;
  std::string what;
};

struct Block {
  size_t size = 0;
  Queue home;                // the stream it was allocated for, which alone may use it again without waiting
  std::set<Queue> recorded;  // by record_stream
  std::vector<Access> reads, writes;
};

std::map<const char*, Block> blocks;
std::map<std::pair<Queue, size_t>, std::vector<char*>> freed;
size_t allocated[DEVICES], peak[DEVICES], limit[DEVICES] = {1 << 30, 1 << 30, 1 << 30};

bool is_done(const Access& access, Queue before) {
  return access.queue == before || lines[before].clock[access.queue] >= access.task;
}

void touch(const at::Tensor& tensor, Queue queue, uint64_t task, bool writes, const std::string& what) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
  auto it = blocks.upper_bound(static_cast<const char*>(tensor.storage().data()));
  if (it == blocks.begin()) return;
  Block& block = (--it)->second;
  auto look = [&](const std::vector<Access>& accesses, const char* verb) {
    for (auto& access : accesses)
      if (!is_done(access, queue) && races.size() < 100)
        races.push_back(what + " on " + name(queue) + verb + access.what + " on " + name(access.queue) + " is done");
  };
  look(block.writes, writes ? " writes before what was written by " : " reads before what was written by ");
  if (writes) {
    look(block.reads, " writes before the reading by ");
    block.writes = {{queue, task, what}};
    block.reads.clear();
  } else {
    auto mine = [&](const Access& read) { return read.queue == queue; };
    block.reads.erase(std::remove_if(block.reads.begin(), block.reads.end(), mine), block.reads.end());
    block.reads.push_back({queue, task, what});
  }
}

void release(void* pointer) {
  Locked locked(everything);
  Block& block = blocks[static_cast<char*>(pointer)];
  // The real allocator notes how far the recorded streams are now, and waits until then before it uses the block again.
  auto waited_for = [&](const Access& access) {
    return std::any_of(block.recorded.begin(), block.recorded.end(), [&](Queue q) { return is_done(access, q); });
  };
  for (auto* accesses : {&block.reads, &block.writes}) {
    accesses->erase(std::remove_if(accesses->begin(), accesses->end(), waited_for), accesses->end());
    for (auto& access : *accesses) access.what += " (freed since)";
  }
  block.recorded.clear();
  allocated[block.home.first] -= block.size;
  freed[{block.home, block.size}].push_back(static_cast<char*>(pointer));
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    Locked locked(everything);
    Queue home = queue_now(device_now);
    size_t size = std::max<size_t>((bytes + 511) / 512, 1) * 512;
    TORCH_CHECK_WITH(OutOfMemoryError, allocated[device_now] + size <= limit[device_now], "the pretend GPU is full");
    char* pointer;
    auto& free = freed[{home, size}];
    if (free.empty()) {
      pointer = static_cast<char*>(std::aligned_alloc(512, size));
      blocks[pointer].size = size;
      blocks[pointer].home = home;
    } else {
      pointer = free.back();
      free.pop_back();
    }
    peak[device_now] = std::max(peak[device_now], allocated[device_now] += size);
    return {pointer, pointer, &release, Device(GPU, device_now)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
} allocator;
REGISTER_ALLOCATOR(GPU, &allocator);

// ---- what PyTorch asks a device for: current device and stream, events ----

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static Device full(Device d) { return {GPU, static_cast<DeviceIndex>(d.index() < 0 ? device_now : d.index())}; }
  static Stream stream(Device d, int64_t id) { return Stream(Stream::UNSAFE, full(d), id); }
  c10::DeviceType type() const override { return GPU; }
  Device exchangeDevice(Device d) const override { return {GPU, (DeviceIndex)std::exchange(device_now, d.index())}; }
  Device getDevice() const override { return {GPU, static_cast<DeviceIndex>(device_now)}; }
  void setDevice(Device d) const override { device_now = d.index(); }
  void uncheckedSetDevice(Device d) const noexcept override { device_now = d.index(); }
  DeviceIndex deviceCount() const noexcept override { return DEVICES; }

  Stream getStream(Device d) const override { return stream(d, stream_now[full(d).index()]); }
  Stream getDefaultStream(Device d) const override { return stream(d, 0); }
  Stream getNewStream(Device d, int) const override {
    static std::atomic<int64_t> count{0};
    return stream(d, ++count);
  }
  Stream getStreamFromGlobalPool(Device d, bool) const override { return getNewStream(d, 0); }
  Stream exchangeStream(Stream s) const override {
    return stream(s.device(), std::exchange(stream_now[s.device_index()], s.id()));
  }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream& s) const override { Locked l(everything); host_waits(lines[queue_of(s)]); }
  void synchronizeDevice(DeviceIndex device) const override {
    Locked locked(everything);
    for (auto& [queue, line] : lines)
      if (queue.first == device) host_waits(line);
  }

  // An event is how far its stream was when it was recorded.
  void record(void** event, const Stream& s, DeviceIndex, c10::EventFlag) const override {
    Locked locked(everything);
    launch(queue_of(s), 0);
    if (!*event) *event = new Line;
    *static_cast<Line*>(*event) = lines[queue_of(s)];
  }
  void block(void* event, const Stream& s) const override {
    Locked locked(everything);
    check_health();
    if (event) wait(lines[queue_of(s)], *static_cast<Line*>(event));
  }
  bool queryEvent(void* event) const override {
    Locked locked(everything);
    if (event)
      for (auto& [queue, task] : static_cast<Line*>(event)->clock)
        if (host.clock[queue] < task) return false;
    return true;
  }
  void synchronizeEvent(void* event) const override {
    Locked locked(everything);
    if (event) host_waits(*static_cast<Line*>(event));
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete static_cast<Line*>(event); }
  double elapsedTime(void* start, void* end, DeviceIndex) const override {
    TORCH_CHECK(queryEvent(start) && queryEvent(end), "CUDA error: device not ready");
    return static_cast<Line*>(end)->time - static_cast<Line*>(start)->time;
  }
  void recordDataPtrOnStream(const c10::DataPtr& pointer, const Stream& s) const override {
    Locked locked(everything);
    auto it = blocks.find(static_cast<const char*>(pointer.get()));
    if (it != blocks.end() && it->second.home != queue_of(s)) it->second.recorded.insert(queue_of(s));
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return DEVICES; }
  DeviceIndex getCurrentDevice() const override { return device_now; }
  void setCurrentDevice(DeviceIndex device) const override { device_now = device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(device_now, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return exchangeDevice(device); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

// ---- tensors ----

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == GPU; }

int index_of(std::optional<Device> device) { return device && device->has_index() ? device->index() : device_now; }

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(Device(GPU, index_of(device)));
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(Device(GPU, index_of(device)));
  return at::detail::empty_strided_generic(size, stride, &allocator,
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                                       self.key_set(), self.dtype());
  view.unsafeGetTensorImpl()->set_storage_offset(offset.value_or(self.storage_offset()));
  view.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return view;
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  return as_strided(self, size, stride, {});
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  auto full = at::infer_size(size, self.numel());
  auto stride = at::detail::computeStride(self.sizes(), self.strides(), full);
  TORCH_CHECK(stride, "view size is not compatible with input tensor's size and stride");
  return as_strided(self, full, *stride, {});
}

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, stride);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  int64_t items = storage.nbytes() / self.element_size();
  return set_storage(self, std::move(storage), 0, {items}, {1});
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto fresh = empty(size, c10::typeMetaToScalarType(self.dtype()), {}, self.device(), {}, format);
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
  self.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
  return self;
}

void record_stream(at::Tensor& self, Stream stream) {
  Guard().recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// The same memory, for the CPU.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (!is_ours(tensor)) return tensor;
  if (tensor.numel() == 0)
    return at::detail::empty_cpu(tensor.sizes(), c10::typeMetaToScalarType(tensor.dtype()), {}, {}, {}, {});
  void* data = tensor.unsafeGetTensorImpl()->mutable_data();
  return at::from_blob(data, tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU).requires_grad(false));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  at::AutoDispatchBelowADInplaceOrView below;
  auto bytes = on_cpu(from);
  if (in_kernel) {
    on_cpu(to).copy_(bytes);
    return to;
  }
  Locked locked(everything);
  int at = is_ours(from) ? from.device().index() : to.device().index();
  Queue queue = queue_now(at), target = is_ours(to) ? queue_now(to.device().index()) : queue;
  bool plain = from.dtype() == to.dtype() && from.strides() == to.strides() && from.is_non_overlapping_and_dense();
  if (target != queue) {
    // Between GPUs, the sender's current stream copies, and the receiver's waits before and after. But without peer
    // access what is not dense is first made so, on the sender's stream, before any waiting.
    if (!peer_access && !plain) touch(from, queue, launch(queue), false, "making a copy dense");
    wait(lines[queue], lines[target]);
  }
  auto task = launch(queue);
  if (is_ours(from)) touch(from, queue, task, false, "a copy");
  if (is_ours(to)) touch(to, queue, task, true, "a copy");
  if (target != queue) wait(lines[target], lines[queue]);
  bool to_host = !is_ours(to);
  if (to_host && non_blocking && plain && to.numel() > 0) {
    underway.push_back({queue, task, bytes.clone(), to});
    std::memset(to.mutable_data_ptr(), 0xff, to.nbytes());
    return to;
  }
  if (!is_ours(from) || to_host)
    if (!non_blocking || to_host) host_waits(lines[queue]);
  on_cpu(to).copy_(bytes);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) is_ours(to) ? resize(to, from.sizes(), {}) : to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar item(const at::Tensor& self) {
  Locked locked(everything);
  Queue queue = queue_now(self.device().index());
  touch(self, queue, launch(queue), false, "item");
  host_waits(lines[queue]);
  return on_cpu(self).item();
}

struct InKernel {
  bool outer = std::exchange(in_kernel, true);
  ~InKernel() { in_kernel = outer; }
};

// Every other kernel: note what it reads and writes, then let PyTorch run it on the CPU.
void kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  auto& schema = op.schema();
  auto& what = schema.operator_name().name;
  std::vector<std::pair<at::Tensor, bool>> given;
  int device = -1;
  bool host_too = false;
  auto add = [&](const at::Tensor& tensor, bool writes) {
    if (!tensor.defined()) return;
    if (!is_ours(tensor)) { host_too |= tensor.dim() > 0; return; }
    given.emplace_back(tensor, writes);
    int index = tensor.device().index();
    if (device < 0) device = index;
    TORCH_CHECK(index == device || tensor.dim() == 0, "Expected all tensors to be on the same device, but ", what,
                " got some on gpu:", device, " and gpu:", index);
  };
  auto arguments = torch::jit::last(*stack, schema.arguments().size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    bool writes = schema.arguments()[i].alias_info() && schema.arguments()[i].alias_info()->isWrite();
    if (value.isTensor()) add(value.toTensor(), writes);
    else if (value.isTensorList()) for (const at::Tensor& tensor : value.toTensorVector()) add(tensor, writes);
    else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) if (tensor) add(*tensor, writes);
    } else if (value.isDevice() && value.toDevice().type() == GPU && device < 0) device = index_of(value.toDevice());
  }
  TORCH_CHECK(!host_too || given.empty() || what.find("index") != std::string::npos,
              "Expected all tensors to be on the same device, but ", what, " got some on cpu and gpu:", device);
  c10::DeviceGuard guard(Device(GPU, device < 0 ? device_now : device));
  Queue queue = queue_now(device_now);
  uint64_t task;
  {
    Locked locked(everything);
    task = launch(queue);
    for (auto& [tensor, writes] : given) touch(tensor, queue, task, writes, what);
  }
  {
    InKernel inside;
    at::native::cpu_fallback(op, stack);
  }
  Locked locked(everything);
  wait(lines[queue], host);  // a real kernel is launched once its results have their memory, which is now
  for (const auto& value : torch::jit::last(*stack, schema.returns().size())) {
    if (value.isTensor() && is_ours(value.toTensor())) touch(value.toTensor(), queue, task, true, what);
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) if (is_ours(tensor)) touch(tensor, queue, task, true, what);
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&kernel>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", as_strided);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("view", view);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Storage", set_whole_storage);
  library.impl("resize_", resize);
  library.impl("record_stream", record_stream);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
}

}  // namespace

// ---- for gpu.py ----

extern "C" {
void gpu_start() { at::RegisterPrivateUse1HooksInterface(new Hooks); }
const char* gpu_races() {
  static std::string text;
  Locked locked(everything);
  text.clear();
  for (auto& race : races) text += race + "\n";
  return text.c_str();
}
void gpu_work(int device, double milliseconds) { Locked locked(everything); launch(queue_now(device), milliseconds); }
void gpu_peer_access(bool there) { peer_access = there; }
void gpu_break() { broken = true; }
void gpu_limit(int device, size_t bytes) { limit[device] = bytes; }
size_t gpu_allocated(int device) { return allocated[device]; }
size_t gpu_peak(int device) { return peak[device]; }
void gpu_reset_peak(int device) { peak[device] = allocated[device]; }
}
