//! Options that can name no file and no library.
//!
//! ONNX Runtime and its providers have keys beside these that write a file, read one, or open a library
//! (`ep.context_file_path`, `session.optimized_model_filepath`, QNN's `backend_path`), and each release
//! adds some. So what is not known stands for such a one.

use super::settings::PROVIDER_PREFIX;

/// Session configuration entries, by `onnxruntime_session_options_config_keys.h` of 1.17 to 1.32. Not
/// `ep.context_enable`: it writes beside the model.
const ENTRIES: &[&str] = &[
    "mlas.disable_kleidiai",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "mlas.qnbit.force_fp32",
    "mlas.use_lut_gemm",
    "optimization.disable_specified_optimizers",
    "optimization.enable_cast_chain_elimination",
    "optimization.enable_gelu_approximation",
    "session.allow_released_opsets_only",
    "session.disable_aot_function_inlining",
    "session.disable_cpu_ep_fallback",
    "session.disable_double_qdq_remover",
    "session.disable_prepacking",
    "session.disable_qdq_constant_folding",
    "session.disable_quant_qdq",
    "session.dynamic_block_base",
    "session.enable_dq_matmulnbits_fusion",
    "session.enable_quant_qdq_cleanup",
    "session.force_spinning_stop",
    "session.graph_optimizations_loop_level",
    "session.inter_op.allow_spinning",
    "session.inter_op.spin_backoff_max",
    "session.inter_op.spin_duration_us",
    "session.intra_op.allow_spinning",
    "session.intra_op.spin_backoff_max",
    "session.intra_op.spin_duration_us",
    "session.intra_op_thread_affinities",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "session.qdqisint8allowed",
    "session.set_denormal_as_zero",
    "session.strict_shape_type_inference",
    "session.use_deterministic_compute",
    "session.use_device_allocator_for_initializers",
    "session.use_env_allocators",
    "session.x64quantprecision",
];

/// Options of providers: XNNPACK, QNN, OpenVINO, CUDA and TensorRT. Not QNN's `profiling_level` and
/// OpenVINO's `load_config` and `cache_dir`, which are about files.
const OF_PROVIDERS: &[&str] = &[
    "arena_extend_strategy",
    "cudnn_conv1d_pad_to_nc1d",
    "cudnn_conv_algo_search",
    "cudnn_conv_use_max_workspace",
    "device_id",
    "device_type",
    "disable_dynamic_shapes",
    "do_copy_in_default_stream",
    "enable_cuda_graph",
    "enable_htp_fp16_precision",
    "enable_htp_shared_memory_allocator",
    "enable_htp_spill_fill_buffer",
    "enable_opencl_throttling",
    "enable_qdq_optimizer",
    "fuse_conv_bias",
    "gpu_mem_limit",
    "htp_arch",
    "htp_graph_finalization_optimization_mode",
    "htp_performance_mode",
    "intra_op_num_threads",
    "model_priority",
    "num_of_threads",
    "num_streams",
    "offload_graph_io_quantization",
    "precision",
    "prefer_nhwc",
    "qnn_context_priority",
    "rpc_control_latency",
    "soc_model",
    "trt_bf16_enable",
    "trt_builder_optimization_level",
    "trt_cuda_graph_enable",
    "trt_dla_core",
    "trt_dla_enable",
    "trt_fp16_enable",
    "trt_int8_enable",
    "trt_layer_norm_fp32_fallback",
    "trt_max_partition_iterations",
    "trt_max_workspace_size",
    "trt_min_subgraph_size",
    "trt_profile_max_shapes",
    "trt_profile_min_shapes",
    "trt_profile_opt_shapes",
    "trt_sparsity_enable",
    "use_tf32",
    "vtcm_mb",
];

/// QNN's libraries by name; its `saver` and `ir` write files.
const BACKEND_TYPES: &[&str] = &["cpu", "gpu", "htp"];

pub(super) fn names_no_file(key: &str, value: &str) -> bool {
    match key.strip_prefix(PROVIDER_PREFIX) {
        Some("backend_type") => BACKEND_TYPES.contains(&value),
        Some(key) => OF_PROVIDERS.contains(&key),
        // What has no dot is a word or a switch of ours.
        None => !key.contains('.') || ENTRIES.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_name_a_file_or_is_not_known_is_told_from_the_rest() {
        for (key, value) in [
            ("provider.backend_path", "libQnnHtp.so"),
            ("provider.backend_path", "1"),
            ("provider.backend_type", "saver"),
            ("provider.backend_type", "/tmp/x.so"),
            ("provider.trt_engine_cache_path", "x"),
            ("provider.profiling_file_path", "x"),
            ("provider.cache_dir", "x"),
            ("provider.not_known_yet", "1"),
            ("ep.context_enable", "1"),
            ("ep.context_file_path", "/tmp/x"),
            ("session.optimized_model_filepath", "x"),
            ("session.collect_node_memory_stats_to_file", "x"),
            ("session.not_known_yet", "1"),
            ("provider.session.set_denormal_as_zero", "1"),
            (".", "x"),
        ] {
            assert!(!names_no_file(key, value), "{key}={value}");
        }
        for (key, value) in [
            ("graph_optimization_level", "all"),
            ("provider", "QNN"),
            ("provider.backend_type", "htp"),
            ("provider.intra_op_num_threads", "4"),
            ("session.set_denormal_as_zero", "1"),
            ("session.intra_op.allow_spinning", "0"),
        ] {
            assert!(names_no_file(key, value), "{key}={value}");
        }
    }
}
