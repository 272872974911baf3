//! Programs of other frameworks, names and shapes, each with what must be stated of it and what must not.
//!
//! One long list, since each entry is read by itself and none has code of its own.

use serde_json::json;

use crate::kineto::Kineto;

pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Whether the words of text generation apply.
    pub(crate) generates_text: bool,
    pub(crate) says: &'static [&'static str],
    pub(crate) never: &'static [&'static str],
    pub(crate) write: fn(&mut Kineto),
}

const GEMM: &str = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn";
const FLASH: &str =
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)";
const FLASH_BWD: &str = "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>(Flash_bwd_params)";
const CONV: &str =
    "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64";
const DGRAD: &str =
    "sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32";
const WGRAD: &str =
    "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64";
const NORM: &str = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)";
const ADD: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>>(int)";
const SOFTMAX: &str = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*)";
const ADAM: &str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>(int)";
const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const ALL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const REDUCE_SCATTER: &str =
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
const BACKWARD: i64 = 777;

/// One forward pass of a transformer.
fn transformer(k: &mut Kineto, layers: usize, us: f64) {
    for _ in 0..layers {
        k.op("aten::layer_norm", |k| k.kernel(NORM, us / 8.0));
        k.op("aten::linear", |k| k.kernel(GEMM, us));
        k.op("aten::scaled_dot_product_attention", |k| {
            k.kernel(FLASH, us);
        });
        k.op("aten::linear", |k| k.kernel(GEMM, us));
        k.op("aten::add", |k| k.kernel(ADD, us / 8.0));
    }
}

fn convolutions(k: &mut Kineto, layers: usize, us: f64) {
    for _ in 0..layers {
        k.op("aten::conv2d", |k| k.kernel(CONV, us));
        k.op("aten::relu", |k| k.kernel(ADD, us / 4.0));
    }
}

fn backward(k: &mut Kineto, layers: usize, us: f64) {
    k.on_thread(BACKWARD, |k| {
        for _ in 0..layers {
            k.op(
                "autograd::engine::evaluate_function: ConvolutionBackward0",
                |k| {
                    k.op("aten::convolution_backward", |k| {
                        k.kernel(DGRAD, us);
                        k.kernel(WGRAD, us);
                    });
                },
            );
        }
    });
}

fn optimizer(k: &mut Kineto, name: &str, us: f64) {
    k.range(&format!("Optimizer.step#{name}.step"), |k| {
        k.op("aten::_foreach_add_", |k| k.kernel(ADAM, us));
    });
}

fn training_step(k: &mut Kineto) {
    convolutions(k, 8, 100.0);
    backward(k, 8, 100.0);
    optimizer(k, "AdamW", 200.0);
    k.synchronize();
}

fn collective(k: &mut Kineto, kernel: &str, us: f64) {
    k.on_stream(20, |k| {
        k.op("c10d::allreduce_", |k| k.kernel(kernel, us));
    });
}

/// A pass over new tokens that meets as many keys, by the shapes of its operators.
fn language_model_pass(k: &mut Kineto, batch: u64, new: u64, keys: u64, us: f64) {
    k.shaped_op(
        "aten::embedding",
        &json!([[32_000, 512], [batch, new]]),
        |k| {
            k.kernel("void indexSelectLargeIndex<c10::BFloat16, long>(int)", 5.0);
        },
    );
    for _ in 0..4 {
        k.op("aten::linear", |k| k.kernel(GEMM, us));
        let (queries, cache) = ([batch, 8, new, 64], [batch, 8, keys, 64]);
        let dims = json!([queries, cache, cache]);
        k.shaped_op("aten::scaled_dot_product_attention", &dims, |k| {
            k.kernel(FLASH, us);
        });
    }
}

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "ResNet training with a scheduler of the profiler",
        generates_text: false,
        says: &[
            "Training: backward ops on thread 777 (`ConvolutionBackward0`), `Optimizer.step#AdamW.step`",
            "training step 4 ×",
            "forward 35.7 %, backward 57.1 %, optimizer 7.1 %",
        ],
        never: &["ProfilerStep"],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), training_step);
            }
        },
    },
    Program {
        name: "the same without marks of a profiler",
        generates_text: false,
        says: &[
            "Training:",
            "training step 5 ×",
            "each up to the end of an `Optimizer.step`",
        ],
        never: &[],
        write: |k| (0..5).for_each(|_| training_step(k)),
    },
    Program {
        name: "training and evaluation, each in ranges of its own",
        generates_text: false,
        says: &["training step 3 ×", "eval_step 5 ×"],
        never: &["outside the phases"],
        write: |k| {
            (0..3).for_each(|_| k.range("train_step", training_step));
            for _ in 0..5 {
                k.range("eval_step", |k| {
                    convolutions(k, 8, 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "training whose parts have ranges",
        generates_text: false,
        says: &["training step 4 ×"],
        never: &[],
        write: |k| {
            for _ in 0..4 {
                k.range("## forward ##", |k| convolutions(k, 8, 100.0));
                k.range("## backward ##", |k| backward(k, 8, 100.0));
                k.range("## optimizer ##", |k| optimizer(k, "AdamW", 200.0));
                k.synchronize();
            }
        },
    },
    Program {
        name: "Lightning: ranges of hooks around each part",
        generates_text: false,
        says: &["Training:", "training step 4 ×"],
        never: &[],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range(
                        "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
                        |k| k.wait(50.0),
                    );
                    k.range("[pl][profile]run_training_batch", training_step);
                });
            }
        },
    },
    Program {
        name: "a DataLoader that is too slow",
        generates_text: false,
        says: &[
            "input-bound",
            "`enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`",
            "DataLoader workers",
        ],
        never: &["CUDA Graphs", "host-bound"],
        write: |k| {
            for step in 0..6 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range(
                        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                        |k| k.wait(9000.0),
                    );
                    training_step(k);
                });
            }
        },
    },
    Program {
        name: "a DataLoader that hardly matters beside slow host code",
        generates_text: false,
        says: &["host-bound"],
        never: &["DataLoader workers", "CUDA Graphs"],
        write: |k| {
            for step in 0..6 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range(
                        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                        |k| k.wait(3000.0),
                    );
                    for _ in 0..8 {
                        k.op("aten::conv2d", |k| {
                            k.wait(4000.0);
                            k.kernel(CONV, 100.0);
                        });
                    }
                    backward(k, 4, 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "GAN: two optimizers in turns",
        generates_text: false,
        says: &["Training:", "training step 4 ×"],
        never: &["training step 8 ×"],
        write: |k| {
            for _ in 0..4 {
                convolutions(k, 4, 100.0);
                backward(k, 4, 100.0);
                optimizer(k, "Adam", 50.0);
                convolutions(k, 8, 100.0);
                backward(k, 8, 100.0);
                optimizer(k, "RMSprop", 50.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "FSDP: weights gathered and gradients scattered beside compute",
        generates_text: false,
        says: &[
            "Training:",
            "FSDP (`FullyShardedDataParallel.forward`)",
            "training step 3 ×",
            "communication",
        ],
        never: &["experts", "DDP"],
        write: |k| {
            k.meta(
                "distributedInfo",
                json!({"backend": "nccl", "rank": 2, "world_size": 8}),
            );
            for step in 0..3 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for _ in 0..6 {
                        k.range("FullyShardedDataParallel.forward", |k| {
                            collective(k, ALL_GATHER, 150.0);
                            transformer(k, 1, 60.0);
                        });
                    }
                    backward(k, 6, 100.0);
                    collective(k, REDUCE_SCATTER, 300.0);
                    k.synchronize();
                    optimizer(k, "AdamW", 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "one rank of tensor-parallel training that waits for the others",
        generates_text: false,
        says: &[
            "communication-bound",
            "rank 3 of 8",
            "waiting for ranks that were not imported",
        ],
        never: &["host-bound", " saves "],
        write: |k| {
            k.meta(
                "distributedInfo",
                json!({"backend": "nccl", "rank": 3, "world_size": 8}),
            );
            for step in 0..3 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for _ in 0..10 {
                        k.op("aten::linear", |k| k.kernel(GEMM, 50.0));
                        k.op("c10d::allreduce_", |k| k.kernel(ALL_REDUCE, 400.0));
                    }
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "pipeline stages that send to each other",
        generates_text: false,
        says: &["Training:", "training step 4 ×"],
        never: &[],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for _ in 0..4 {
                        collective(k, SEND_RECV, 20.0);
                        transformer(k, 2, 60.0);
                    }
                    for _ in 0..4 {
                        backward(k, 2, 100.0);
                        collective(k, SEND_RECV, 20.0);
                    }
                    optimizer(k, "AdamW", 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "training that torch.compile fused",
        generates_text: false,
        says: &["Training:", "training step 4 ×"],
        never: &["layers"],
        write: |k| {
            for _ in 0..4 {
                k.range("Torch-Compiled Region: 0/0", |k| {
                    k.op("CompiledFunction", |k| {
                        (0..10).for_each(|_| k.kernel("triton_poi_fused_add_relu_3", 60.0));
                    });
                });
                k.on_thread(BACKWARD, |k| {
                    k.op(
                        "autograd::engine::evaluate_function: CompiledFunctionBackward",
                        |k| {
                            k.op("CompiledFunctionBackward", |k| {
                                (0..10).for_each(|_| {
                                    k.kernel("triton_red_fused_native_layer_norm_backward_7", 90.0);
                                });
                            });
                        },
                    );
                });
                optimizer(k, "AdamW", 40.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "training known by its kernels alone",
        generates_text: false,
        says: &["Training: kernels of a backward pass or an optimizer"],
        never: &["host-bound", "step 2"],
        write: |k| {
            for _ in 0..6 {
                (0..4).for_each(|_| k.kernel(FLASH, 80.0));
                (0..4).for_each(|_| k.kernel(FLASH_BWD, 160.0));
                k.kernel(GEMM, 70.0);
            }
            k.synchronize();
        },
    },
    Program {
        name: "training on CPUs whose ranks reduce with gloo",
        generates_text: false,
        says: &[
            "Training:",
            "no GPU events",
            "all_reduce 10 calls, 200 ms in all",
        ],
        never: &["host-bound", "CUDA"],
        write: |k| {
            for step in 0..5 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.op("aten::addmm", |k| k.wait(3000.0));
                    k.on_thread(BACKWARD, |k| {
                        k.op("autograd::engine::evaluate_function: AddmmBackward0", |k| {
                            k.wait(2000.0);
                        });
                    });
                    for _ in 0..2 {
                        k.range("gloo:all_reduce", |k| k.wait(20_000.0));
                    }
                    k.range("Optimizer.step#SGD.step", |k| k.wait(500.0));
                });
            }
        },
    },
    Program {
        name: "Stable Diffusion: an image decoder is no text decoder",
        generates_text: false,
        says: &["unet", "10 ×", "vae.decode"],
        never: &["LLM", "prefill"],
        write: |k| {
            for _ in 0..10 {
                k.range("unet", |k| {
                    convolutions(k, 4, 100.0);
                    transformer(k, 4, 100.0);
                });
                k.synchronize();
            }
            k.range("vae.decode", |k| {
                convolutions(k, 12, 300.0);
                transformer(k, 1, 300.0);
                k.synchronize();
            });
        },
    },
    Program {
        name: "video generation with a range `decode`",
        generates_text: false,
        says: &["denoise", "8 ×"],
        never: &["LLM", "prefill", "TPOT"],
        write: |k| {
            for _ in 0..8 {
                k.range("denoise", |k| {
                    transformer(k, 6, 200.0);
                    k.synchronize();
                });
            }
            k.range("decode", |k| {
                convolutions(k, 20, 200.0);
                transformer(k, 1, 200.0);
                k.synchronize();
            });
        },
    },
    Program {
        name: "FLUX blocks without any range",
        generates_text: false,
        says: &["Top kernels", "flash_fwd_kernel"],
        never: &["layers", "step "],
        write: |k| {
            transformer(k, 57, 150.0);
            k.synchronize();
        },
    },
    Program {
        name: "image classification with recorded modules",
        generates_text: false,
        says: &["Program: modules `ResNet`", "ResNet 6 ×"],
        never: &["Training"],
        write: |k| {
            for _ in 0..6 {
                k.module("ResNet", |k| {
                    convolutions(k, 16, 80.0);
                });
                k.synchronize();
            }
        },
    },
    Program {
        name: "transposed convolutions of a segmentation model",
        generates_text: false,
        says: &["infer"],
        never: &["Training", "backward"],
        write: |k| {
            for _ in 0..5 {
                k.range("infer", |k| {
                    convolutions(k, 6, 80.0);
                    k.op("aten::conv_transpose2d", |k| k.kernel(DGRAD, 120.0));
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "object detection whose host code is slow",
        generates_text: false,
        says: &["detect"],
        never: &["Training", "Repeating launches: 1"],
        write: |k| {
            for _ in 0..5 {
                k.range("detect", |k| {
                    convolutions(k, 10, 60.0);
                    k.synchronize();
                    k.wait(20_000.0);
                    k.op("torchvision::nms", |k| {
                        k.kernel("void nms_kernel_impl<float>(int, double)", 40.0);
                    });
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "speech recognition: encoder windows",
        generates_text: false,
        says: &["encode_audio", "6 ×"],
        never: &["LLM"],
        write: |k| {
            for _ in 0..6 {
                k.range("encode_audio", |k| {
                    convolutions(k, 2, 80.0);
                    transformer(k, 12, 60.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "text embeddings for retrieval",
        generates_text: false,
        says: &["Program: modules `BertModel`", "BertModel 8 ×"],
        never: &["LLM", "layers ×"],
        write: |k| {
            for _ in 0..8 {
                k.module("BertModel", |k| transformer(k, 12, 40.0));
                k.synchronize();
            }
        },
    },
    Program {
        name: "a reranker that encodes pairs",
        generates_text: false,
        says: &["encode 7 ×"],
        never: &["LLM", "encoder"],
        write: |k| {
            for _ in 0..7 {
                k.range("encode", |k| {
                    transformer(k, 6, 60.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "vLLM decode steps",
        generates_text: true,
        says: &["Serving: step labels of vLLM", "decode"],
        never: &["Training"],
        write: |k| {
            for _ in 0..8 {
                k.range("execute_context_0(0)_generation_4(4)", |k| {
                    transformer(k, 6, 60.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "LLM inference by ranges",
        generates_text: true,
        says: &["LLM inference: ranges `prefill`, `decode", "prefill"],
        never: &["Training"],
        write: |k| {
            k.range("prefill", |k| {
                transformer(k, 6, 400.0);
                k.synchronize();
            });
            for step in 0..8 {
                k.range(&format!("decode_step_{step}"), |k| {
                    transformer(k, 6, 40.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "an inference server whose ranges overlap",
        generates_text: false,
        says: &["Top kernels"],
        never: &["prefill"],
        write: |k| {
            for job in 0..12 {
                let start = k.now();
                transformer(k, 4, 50.0);
                k.event(json!({"ph": "X", "cat": "user_annotation", "name": "handle", "pid": 100, "tid": 200 + job % 3, "ts": start, "dur": 2500.0}));
                k.synchronize();
            }
        },
    },
    Program {
        name: "an engine of its own: ranges of enqueued plans",
        generates_text: false,
        says: &["ExecutionContext::enqueue 9 ×"],
        never: &["LLM", "layers ×"],
        write: |k| {
            for _ in 0..9 {
                k.range("ExecutionContext::enqueue", |k| {
                    (0..12).for_each(|_| k.kernel(CONV, 70.0));
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "inference on the CPU",
        generates_text: false,
        says: &[
            "no GPU events",
            "aten::addmm",
            "runs on the CPU, where no op runs for 7",
        ],
        never: &["host-bound", "GPU idle", "CUDA"],
        write: |k| {
            for _ in 0..20 {
                k.op("aten::addmm", |k| k.wait(800.0));
                k.op("aten::softmax", |k| k.wait(100.0));
                k.wait(3000.0);
            }
        },
    },
    Program {
        name: "a recording of launches whose kernels are missing",
        generates_text: false,
        says: &["no GPU events"],
        never: &["host-bound", " saves ", "GPU idle"],
        write: |k| {
            k.without_devices();
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    convolutions(k, 8, 100.0);
                });
            }
        },
    },
    Program {
        name: "kernels without launches",
        generates_text: false,
        says: &["analysis.no_launches"],
        never: &["host-bound", "CUDA Graphs"],
        write: |k| {
            k.without_launches();
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    convolutions(k, 3, 100.0);
                    k.wait(5000.0);
                });
            }
        },
    },
    Program {
        name: "two ranks in one file, three steps each",
        generates_text: false,
        says: &[
            "on thread 777 (",
            "training step (device 0) 3 ×",
            "training step (device 1) 3 ×",
        ],
        never: &[],
        write: |k| {
            for (process, device) in [(100, 0), (200, 1)] {
                k.enter_process(process, device);
                // One rank begins a good part of a step later.
                k.wait(9.0 * process as f64);
                for step in 0..3 {
                    k.range(&format!("ProfilerStep#{step}"), training_step);
                }
            }
        },
    },
    Program {
        name: "two ranks in one file, one of which begins long after the other",
        generates_text: false,
        says: &[
            "Training:",
            "training step (device 0) 3 × 2.813 ms",
            "training step (device 1) 3 × 2.813 ms",
        ],
        never: &["analysis.steps_of_processes", "whole trace"],
        write: |k| {
            for (process, device) in [(100, 0), (200, 1)] {
                k.enter_process(process, device);
                k.wait(200.0 * process as f64);
                for step in 0..3 {
                    k.range(&format!("ProfilerStep#{step}"), training_step);
                }
            }
        },
    },
    Program {
        name: "CUDA graphs, launched again and again",
        generates_text: false,
        says: &["replay 10 ×"],
        never: &["Try: CUDA Graphs"],
        write: |k| {
            for _ in 0..10 {
                k.range("replay", |k| {
                    k.graph(&[(GEMM, 50.0), (ADD, 10.0), (FLASH, 40.0), (SOFTMAX, 10.0)]);
                    k.synchronize();
                    k.wait(300.0);
                });
            }
        },
    },
    Program {
        name: "a solver: stencils and transforms",
        generates_text: false,
        says: &["Top kernels", "stencil3d", "regular_fft"],
        never: &["layers", "attention", "GEMM"],
        write: |k| {
            for _ in 0..40 {
                k.kernel(
                    "void stencil3d<double, 16, 16>(double const*, double*, int)",
                    120.0,
                );
                k.kernel("void regular_fft<1024, double2>(kernel_arguments_t)", 60.0);
            }
            k.synchronize();
        },
    },
    Program {
        name: "JAX training: compiled functions as ranges",
        generates_text: false,
        says: &["jit_train_step 5 ×"],
        never: &["torch.compile"],
        write: |k| {
            for _ in 0..5 {
                k.range(
                    "XlaModule:#prefix=jit(train_step),hlo_module=jit_train_step,program_id=3#",
                    |k| {
                        (0..10).for_each(|_| k.kernel("loop_add_multiply_fusion", 80.0));
                        k.kernel("gemm_fusion_dot_4", 200.0);
                        k.synchronize();
                    },
                );
            }
        },
    },
    Program {
        name: "reinforcement learning: rollouts and updates",
        generates_text: false,
        says: &["rollout 3 ×", "update 3 ×", "Training:"],
        never: &["training step"],
        write: |k| {
            for _ in 0..3 {
                k.range("rollout", |k| {
                    for _ in 0..10 {
                        k.op("aten::linear", |k| k.kernel(GEMM, 20.0));
                        k.synchronize();
                        k.wait(2000.0);
                    }
                });
                k.range("update", |k| {
                    convolutions(k, 6, 100.0);
                    backward(k, 6, 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "a graph network",
        generates_text: false,
        says: &["epoch 6 ×"],
        never: &["Training"],
        write: |k| {
            for epoch in 0..6 {
                k.range(&format!("epoch {epoch}"), |k| {
                    for _ in 0..5 {
                        k.op("torch_scatter::scatter_sum", |k| {
                            k.kernel("void scatter_kernel<float, 0, long>(float const*)", 150.0);
                        });
                        k.op("aten::linear", |k| k.kernel(GEMM, 40.0));
                    }
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "a recommender whose tables exchange rows",
        generates_text: false,
        says: &["## forward ## 5 ×"],
        never: &["layers", "steps of"],
        write: |k| {
            for _ in 0..5 {
                k.range("## forward ##", |k| {
                    k.op("fbgemm::split_embedding_codegen_lookup", |k| k.kernel("void split_embedding_codegen_forward_unweighted_kernel<float, float>(int)", 200.0));
                    collective(k, SEND_RECV, 250.0);
                    k.op("aten::linear", |k| k.kernel(GEMM, 60.0));
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "weights that are streamed from the host",
        generates_text: false,
        says: &["copy-bound", "pageable"],
        never: &["fewer, larger copies", "host-bound"],
        write: |k| {
            for _ in 0..6 {
                k.range("block", |k| {
                    k.copy_in(512 << 20, 40_000.0);
                    transformer(k, 1, 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "a benchmark of collectives",
        generates_text: false,
        says: &["communication", "ncclDevKernel_AllReduce"],
        never: &["steps of", "layers", "host-bound", "overlap communication"],
        write: |k| {
            for _ in 0..200 {
                k.kernel(ALL_REDUCE, 300.0);
            }
            k.synchronize();
        },
    },
    Program {
        name: "start-up before the first step",
        generates_text: false,
        says: &["training step 5 ×"],
        never: &["training step 6 ×"],
        write: |k| {
            k.op("aten::randn", |k| {
                k.kernel(
                    "void at::native::distribution_elementwise_grid_stride_kernel<float, 4>(long)",
                    50.0,
                );
            });
            k.wait(900_000.0);
            k.op("aten::copy_", |k| k.copy_in(1 << 20, 80.0));
            (0..6).for_each(|_| training_step(k));
        },
    },
    Program {
        name: "one pass with a range around all of it",
        generates_text: false,
        says: &["main"],
        never: &["outside the phases"],
        write: |k| {
            k.range("main", |k| {
                convolutions(k, 20, 100.0);
                k.synchronize();
            });
        },
    },
    Program {
        name: "two devices that work in turns",
        generates_text: false,
        says: &["hop (device 0) 6 ×", "hop (device 1) 6 ×"],
        never: &["host-bound"],
        write: |k| {
            for _ in 0..6 {
                k.range("hop", |k| {
                    for device in 0..2 {
                        k.on_device(device);
                        transformer(k, 2, 200.0);
                        k.synchronize();
                    }
                });
            }
        },
    },
    Program {
        name: "a library that frees its workspace in every call",
        generates_text: false,
        says: &[
            "host-bound",
            "while the host runs `hipFree`",
            "allocate once",
        ],
        never: &["while the host runs `aten::conv2d`", "CUDA Graphs"],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for _ in 0..10 {
                        k.op("aten::conv2d", |k| {
                            k.call("hipMalloc", 20.0);
                            k.kernel(CONV, 100.0);
                            k.call("hipFree", 600.0);
                        });
                    }
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "allocations that hardly matter",
        generates_text: false,
        says: &["host-bound"],
        never: &["while the host runs `cudaMalloc`", "allocate once"],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for _ in 0..10 {
                        k.op("aten::conv2d", |k| {
                            k.call("cudaMalloc", 30.0);
                            k.wait(400.0);
                            k.kernel(CONV, 100.0);
                        });
                    }
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "two devices that run the same function apart, of which no launch is recorded",
        generates_text: false,
        says: &[
            "jit_step (device 0) 12 × 405 µs",
            "jit_step (device 1) 12 × 405 µs",
        ],
        never: &["warm-up", "jit_step 24", "outside the phases"],
        write: |k| {
            k.without_launches();
            for device in 0..2 {
                k.enter_process(100 + i64::from(device), device);
                // One begins while the other is in the middle of its first.
                k.wait(200.0 * f64::from(device));
                for _ in 0..12 {
                    k.device_range("XlaModule:#hlo_module=jit_step,program_id=7#", |k| {
                        k.kernel("gemm_fusion_dot_4", 300.0);
                        k.kernel("loop_add_fusion", 100.0);
                    });
                    k.synchronize();
                }
            }
        },
    },
    Program {
        name: "copies that XLA waits for",
        generates_text: false,
        says: &[
            "jit_f 8 ×",
            "copy-bound",
            "8 copies of unknown direction",
            "keep arrays in device memory",
        ],
        never: &["another stream"],
        write: |k| {
            k.without_launches();
            for _ in 0..8 {
                k.device_range("XlaModule:#hlo_module=jit_f,program_id=7#", |k| {
                    k.kernel("copy-start.2", 1.0);
                    k.kernel("broadcast_add_fusion", 100.0);
                    k.kernel("copy-done.2", 900.0);
                });
                k.synchronize();
            }
        },
    },
    Program {
        name: "copies in both directions",
        generates_text: false,
        says: &[
            "copies host to device",
            "copies device to host",
            "exposed copies",
        ],
        never: &[],
        write: |k| {
            for _ in 0..6 {
                k.range("exchange", |k| {
                    k.copy_in(64 << 20, 5_000.0);
                    transformer(k, 1, 100.0);
                    k.copy_out(64 << 20, 4_000.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "copies that kernels hide",
        generates_text: false,
        says: &["batch 6 ×"],
        never: &["copies and memsets take", "copy-bound"],
        write: |k| {
            for _ in 0..6 {
                k.range("batch", |k| {
                    k.on_stream(9, |k| k.copy_in(64 << 20, 3_000.0));
                    k.op("aten::linear", |k| k.kernel(GEMM, 4_000.0));
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "an even number of steps: one median",
        generates_text: false,
        says: &[
            "ProfilerStep 4 ×, median 2.5 ms",
            "ProfilerStep | 4 | 4 ms | 2.5 ms",
        ],
        never: &["median 3"],
        write: |k| {
            for (step, length) in [1_000.0, 2_000.0, 3_000.0, 10_000.0]
                .into_iter()
                .enumerate()
            {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    let start = k.now();
                    k.op("aten::linear", |k| k.kernel(GEMM, length / 2.0));
                    let rest = length - 1.0 - (k.now() - start + 1.0);
                    k.wait(rest);
                });
            }
        },
    },
    Program {
        name: "kernels whose launches were dropped after the last range",
        generates_text: false,
        says: &["outside the phases"],
        never: &["launched before the recording"],
        write: |k| {
            for _ in 0..4 {
                k.range("job", |k| {
                    k.op("aten::linear", |k| k.kernel(GEMM, 500.0));
                    k.synchronize();
                });
            }
            k.without_launches();
            (0..4).for_each(|_| k.kernel(GEMM, 200.0));
        },
    },
    Program {
        name: "a host that enqueues collectives, its GPU not recorded",
        generates_text: false,
        says: &["no GPU events"],
        never: &["Communication of this rank", "communication-bound"],
        write: |k| {
            k.without_devices();
            for step in 0..3 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.op("aten::linear", |k| k.kernel(GEMM, 50.0));
                    k.range("nccl:all_reduce", |k| k.wait(40.0));
                });
            }
        },
    },
    Program {
        name: "training on the CPU whose gradients gloo adds up",
        generates_text: false,
        says: &[
            "communication-bound",
            "Communication of this rank",
            "all_reduce 3 calls",
        ],
        never: &["host-bound", "bottleneck unknown"],
        write: |k| {
            k.without_devices();
            for step in 0..3 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.op("aten::linear", |k| k.wait(500.0));
                    k.on_thread(55, |k| k.range("gloo:all_reduce", |k| k.wait(4_000.0)));
                    k.op("aten::add_", |k| k.wait(300.0));
                });
            }
        },
    },
    Program {
        name: "a DataLoader in most of the idle time, though not in half of the step",
        generates_text: false,
        says: &["input-bound", "most of its idle time"],
        never: &["bottleneck unknown", "no cause"],
        write: |k| {
            for step in 0..6 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range(
                        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                        |k| k.wait(2_750.0),
                    );
                    for _ in 0..10 {
                        k.op("aten::conv2d", |k| {
                            k.wait(20.0);
                            k.kernel(CONV, 240.0);
                        });
                    }
                    k.synchronize();
                    k.wait(200.0);
                });
            }
        },
    },
    Program {
        name: "a long start on the host before the first kernel",
        generates_text: false,
        says: &["on the host before the first GPU event"],
        never: &[],
        write: |k| {
            k.op("aten::empty", |k| k.wait(900_000.0));
            (0..6).for_each(|_| training_step(k));
        },
    },
    Program {
        name: "calls of the runtime and nothing else",
        generates_text: false,
        says: &["3 runtime calls", "no GPU events"],
        never: &["host op ", "3 host ops"],
        write: |k| {
            for name in ["hipGetDeviceCount", "hipMalloc", "hipFree"] {
                k.call(name, 10.0);
            }
        },
    },
    Program {
        name: "a pipeline schedule that marks its micro-batches",
        generates_text: false,
        says: &[
            "DDP (`DistributedDataParallel.forward`)",
            "a pipeline of 4 micro-batches (`Forward 0`)",
            "training step 3 ×",
        ],
        never: &["FSDP"],
        write: |k| {
            for step in 0..3 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    for batch in 0..4 {
                        k.range(&format!("Forward {batch}"), |k| {
                            collective(k, SEND_RECV, 20.0);
                            k.range("DistributedDataParallel.forward", |k| {
                                transformer(k, 2, 60.0);
                            });
                        });
                    }
                    for batch in 0..4 {
                        k.range(&format!("Backward {batch}"), |k| backward(k, 2, 60.0));
                    }
                    optimizer(k, "AdamW", 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "convolutions of thirty names",
        generates_text: false,
        says: &[
            "mostly conv (60.0 % of GPU time)",
            "conv 60.0 %, gemm 40.0 %",
        ],
        never: &["largest part of GPU time: gemm"],
        write: |k| {
            for _ in 0..4 {
                k.range("batch", |k| {
                    for number in 0..30 {
                        k.op("aten::conv2d", |k| {
                            k.kernel(&format!("{CONV}_{number}"), 100.0);
                        });
                    }
                    k.op("aten::linear", |k| k.kernel(GEMM, 2_000.0));
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "a third of the kernels were dropped by the profiler",
        generates_text: true,
        says: &[
            "GPU busy at least",
            "80 kernels missing: idle time unknown",
            "have no kernel in the trace",
        ],
        never: &["GPU idle 3", " saves ", "Removing it"],
        write: |k| {
            k.range("execute_context_1(888)_generation_0(0)", |k| {
                for _ in 0..80 {
                    k.op("aten::linear", |k| k.kernel(GEMM, 100.0));
                    k.op("aten::linear", |k| k.call("cudaLaunchKernel", 5.0));
                    k.op("aten::add", |k| k.kernel(ADD, 20.0));
                    k.wait(60.0);
                }
                k.synchronize();
            });
        },
    },
    Program {
        name: "every second launch call is not in the trace",
        generates_text: true,
        says: &["GPU idle"],
        never: &[" saves ", "CUDA Graphs"],
        write: |k| {
            k.range("execute_context_1(888)_generation_0(0)", |k| {
                for layer in 0..80 {
                    if layer % 2 == 0 {
                        k.without_launches();
                    } else {
                        k.with_launches();
                    }
                    k.op("aten::linear", |k| k.kernel(GEMM, 20.0));
                    k.wait(60.0);
                }
                k.synchronize();
            });
        },
    },
    Program {
        name: "training with JAX on the CPU",
        generates_text: false,
        says: &[
            "train 4 ×",
            "`dot.3` 83.3 % (4 ×)",
            "`broadcast_add_fusion` 16.7 % (4 ×)",
        ],
        never: &[
            "neither device events nor host ops",
            "`ThunkExecutor::Execute` ",
            "`$core.py",
        ],
        write: |k| {
            let event = |name: &str, ts: u32, dur: u32, args: serde_json::Value| json!({"ph": "X", "name": name, "pid": 701, "tid": 9, "ts": ts, "dur": dur, "args": args});
            for step in 0..4 {
                let at = 1_000 + 1_000 * step;
                let op = |name: &str| json!({"hlo_op": name, "hlo_module": "jit_train_step"});
                k.event(event(
                    "train",
                    at,
                    900,
                    json!({"step_num": step.to_string()}),
                ));
                k.event(event("$core.py:660 bind", at + 10, 800, json!({})));
                k.event(event("ThunkExecutor::Execute", at + 20, 700, json!({})));
                k.event(event("dot.3", at + 30, 500, op("dot.3")));
                k.event(event(
                    "broadcast_add_fusion",
                    at + 600,
                    100,
                    op("broadcast_add_fusion"),
                ));
            }
        },
    },
    Program {
        name: "a loader of the program itself, in a range",
        generates_text: false,
        says: &[
            "in range `MyPrefetcher.next`)",
            "computes nothing for",
            "while the host runs `MyPrefetcher.next`",
        ],
        never: &["does not show"],
        write: |k| {
            for step in 0..6 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range("MyPrefetcher.next", |k| k.wait(9_000.0));
                    training_step(k);
                });
            }
        },
    },
    Program {
        name: "a slow DataLoader on the CPU",
        generates_text: false,
        says: &[
            "no op runs for 97.1 % of the time",
            "in range `enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__`",
            "waits for its input data for 97.1 % of the time",
        ],
        never: &["this recording does not show", "GPU idle"],
        write: |k| {
            k.without_devices();
            for step in 0..5 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range(
                        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                        |k| k.wait(20_000.0),
                    );
                    k.op("aten::linear", |k| k.wait(500.0));
                    k.op("aten::add", |k| k.wait(100.0));
                });
            }
        },
    },
    Program {
        name: "copies ahead of need on a stream that nobody waits for",
        generates_text: false,
        says: &["batch 4 ×"],
        never: &["copy-bound", "exposed copies"],
        write: |k| {
            for _ in 0..4 {
                k.range("batch", |k| {
                    k.on_stream(20, |k| k.copy_in(1 << 30, 4_000.0));
                    for _ in 0..40 {
                        k.op("aten::linear", |k| k.kernel(GEMM, 20.0));
                        k.wait(100.0);
                    }
                });
            }
            k.synchronize();
        },
    },
    Program {
        name: "inference on one GPU, then training on another",
        generates_text: false,
        says: &[
            "training step (device 2) 5 ×",
            "forward without backward (device 0) 5.0",
        ],
        never: &["GPU idle 100", "training step (device 0)"],
        write: |k| {
            k.range("score", |k| {
                convolutions(k, 40, 100.0);
                k.synchronize();
            });
            k.on_device(2);
            (0..5).for_each(|_| training_step(k));
        },
    },
    Program {
        name: "a GAN whose optimizers have one name",
        generates_text: false,
        says: &["training step 5 ×"],
        never: &["training step 10 ×", "training step 9 ×"],
        write: |k| {
            for _ in 0..5 {
                convolutions(k, 8, 100.0);
                convolutions(k, 8, 100.0);
                backward(k, 8, 100.0);
                optimizer(k, "Adam", 100.0);
                convolutions(k, 8, 100.0);
                backward(k, 16, 100.0);
                optimizer(k, "Adam", 100.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "gradients that are accumulated over steps of the profiler",
        generates_text: false,
        says: &["training step 2 ×", "accumulation step 6 ×"],
        never: &["training step 8 ×"],
        write: |k| {
            for step in 0..8 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    convolutions(k, 8, 100.0);
                    backward(k, 8, 100.0);
                    if step % 4 == 3 {
                        optimizer(k, "AdamW", 200.0);
                    }
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "two optimizers of different names",
        generates_text: false,
        says: &["`Optimizer.step#SGD.step`, `Optimizer.step#Adam.step`"],
        never: &[],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    convolutions(k, 8, 100.0);
                    backward(k, 8, 100.0);
                    optimizer(k, "SGD", 100.0);
                    optimizer(k, "Adam", 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "training that copies and evaluates before each step",
        generates_text: false,
        says: &["forward 23.3 %, backward 37.2 %, optimizer 4.7 %, other 34.9 %"],
        never: &[],
        write: |k| {
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.range("validate", |k| convolutions(k, 8, 100.0));
                    k.copy_in(1 << 20, 500.0);
                    training_step(k);
                });
            }
        },
    },
    Program {
        name: "a critic that steps three times for each step of its generator",
        generates_text: false,
        says: &["training step 5 ×"],
        never: &["training step 15 ×"],
        write: |k| {
            for _ in 0..5 {
                for name in ["Adam", "Adam", "Adam", "AdamW"] {
                    convolutions(k, 8, 100.0);
                    backward(k, 8, 100.0);
                    optimizer(k, name, 100.0);
                }
                k.synchronize();
            }
        },
    },
    Program {
        name: "training of which a few steps wait long for their input",
        generates_text: false,
        says: &["(the median of 10; the mean is "],
        never: &[],
        write: |k| {
            for step in 0..10 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    if step % 4 == 3 {
                        k.range(
                            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                            |k| k.wait(90_000.0),
                        );
                    }
                    training_step(k);
                });
            }
        },
    },
    Program {
        name: "ranges around the work of a GPU that mostly waits between them",
        generates_text: false,
        says: &[" in phases, 1", "GPU span"],
        never: &[],
        write: |k| {
            for _ in 0..10 {
                k.wait(8000.0);
                k.range("forward", |k| {
                    convolutions(k, 10, 100.0);
                    k.synchronize();
                });
            }
        },
    },
    Program {
        name: "one op on the CPU that takes nearly all of the time",
        generates_text: false,
        says: &["runs on the CPU; `aten::addmm` takes 95.2 % of its time in ops"],
        never: &["a bottleneck that this recording does not show"],
        write: |k| {
            for _ in 0..20 {
                k.op("aten::addmm", |k| k.wait(1998.0));
                k.op("aten::softmax", |k| k.wait(98.0));
            }
        },
    },
    Program {
        name: "a training loop whose GPU was not recorded",
        generates_text: false,
        says: &[
            "the GPU was not recorded",
            "uses a GPU that was not recorded",
        ],
        never: &["runs on the CPU"],
        write: |k| {
            k.without_launches();
            k.without_devices();
            for step in 0..4 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    training_step(k);
                    k.range("nccl:all_reduce", |k| k.wait(20.0));
                });
            }
        },
    },
    Program {
        name: "two devices, one of which waits for the other in each exchange",
        generates_text: false,
        says: &["whole trace (device 0): exposed communication takes 69"],
        never: &["both devices"],
        write: |k| {
            for _ in 0..8 {
                k.on_device(0);
                k.kernel(GEMM, 1000.0);
                k.kernel(ALL_REDUCE, 2310.0);
                k.on_device(1);
                k.kernel(GEMM, 3000.0);
                k.kernel(ALL_REDUCE, 300.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "a first copy that waits for work that was not recorded",
        generates_text: false,
        says: &["Top kernels"],
        never: &["on the host before the first GPU event"],
        write: |k| {
            let launched = k.now();
            k.op("aten::copy_", |k| k.call("cudaMemcpyAsync", 5.0));
            k.event(json!({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0, "tid": 7, "ts": launched + 100_000.0, "dur": 10.0, "args": {"device": 0, "stream": 7, "correlation": 1, "bytes": 1024}}));
            k.wait(100_000.0);
            convolutions(k, 8, 100.0);
            k.synchronize();
        },
    },
    Program {
        name: "times that were rounded to microseconds",
        generates_text: false,
        says: &["batch 6 ×"],
        never: &["batch 5 ×", "batch 4 ×"],
        write: |k| {
            for _ in 0..6 {
                k.range("batch", |k| {
                    k.wait(0.4);
                    convolutions(k, 7, 80.3);
                    k.synchronize();
                    k.wait(0.3);
                });
            }
            k.round_times();
        },
    },
    Program {
        name: "rollouts inside of training steps that nothing marks",
        generates_text: false,
        says: &[
            "training step 3 ×",
            "forward 9.4 %, backward 4.7 %, optimizer 1.2 %, other 84.8 %",
        ],
        never: &[],
        write: |k| {
            for _ in 0..3 {
                for token in 0..9 {
                    let new = if token == 0 { 16 } else { 1 };
                    language_model_pass(k, 4, new, 16 + token, 60.0);
                }
                language_model_pass(k, 4, 24, 24, 60.0);
                backward(k, 2, 60.0);
                optimizer(k, "AdamW", 60.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "an encoder of text by shapes, batch after batch",
        generates_text: false,
        says: &["Top kernels"],
        never: &["LLM", "Autoregressive"],
        write: |k| {
            for _ in 0..12 {
                language_model_pass(k, 16, 128, 128, 60.0);
                k.synchronize();
                k.wait(60.0);
            }
        },
    },
    Program {
        name: "host code around one kernel and one copy",
        generates_text: false,
        says: &["postprocess"],
        never: &["CUDA Graphs", "torch.compile"],
        write: |k| {
            for _ in 0..20 {
                k.range("postprocess", |k| {
                    k.kernel("void nms_kernel_impl<float>(int, double)", 30.0);
                    k.copy_out(1 << 20, 60.0);
                    k.synchronize();
                    k.wait(900.0);
                });
            }
        },
    },
    Program {
        name: "training and an inference without marks, two processes on one GPU",
        generates_text: false,
        says: &[
            "2 processes share a GPU. Training: backward ops",
            "so that no step is one of all of them",
        ],
        never: &["training step", "Try: ", "forward 3"],
        write: |k| {
            (0..5).for_each(|_| training_step(k));
            k.enter_process(200, 0);
            for _ in 0..20 {
                transformer(k, 2, 50.0);
                k.synchronize();
            }
        },
    },
    Program {
        name: "evaluations between the steps of a training, and after the last",
        generates_text: false,
        says: &[
            "training step 6 ×",
            "forward without backward 3 ×",
            "forward 35.7 %",
        ],
        never: &["outside the phases"],
        write: |k| {
            for step in 0..6 {
                training_step(k);
                if step % 2 == 1 {
                    for _ in 0..4 {
                        convolutions(k, 8, 100.0);
                        k.synchronize();
                    }
                }
            }
        },
    },
    Program {
        name: "rollouts before several steps each",
        generates_text: false,
        says: &["rollout 3 ×", "ppo_update 3 ×"],
        never: &["training step"],
        write: |k| {
            for _ in 0..3 {
                k.range("rollout", |k| {
                    for _ in 0..50 {
                        k.op("aten::addmm", |k| k.kernel(GEMM, 10.0));
                        k.synchronize();
                        k.wait(300.0);
                    }
                });
                k.range("ppo_update", |k| {
                    for _ in 0..4 {
                        k.op("aten::addmm", |k| k.kernel(GEMM, 10.0));
                        backward(k, 1, 10.0);
                        optimizer(k, "Adam", 10.0);
                    }
                });
            }
        },
    },
    Program {
        name: "torch.compile compiles on the CPU",
        generates_text: false,
        says: &["torch.compile compiles 2", "compiled call 6 ×"],
        never: &["dynamo_data"],
        write: |k| {
            k.without_devices();
            k.op("dynamo", |k| {
                k.range("dynamo_data: compile_id=0/0", |k| k.wait(70.0));
                k.op("bytecode_tracing", |k| k.wait(200_000.0));
                k.range("gc_data: compile_id=0/0", |k| k.wait(70.0));
            });
            for _ in 0..6 {
                k.op("Torch-Compiled Region: 0/0", |k| {
                    k.op("mkldnn::_linear_pointwise", |k| k.wait(3000.0));
                });
            }
        },
    },
    Program {
        name: "two GPUs, one almost idle",
        generates_text: false,
        says: &["GPU 1 of 2 busy 5 µs"],
        never: &[],
        write: |k| {
            let touch = |k: &mut Kineto| {
                k.on_device(1);
                k.op("aten::add", |k| k.kernel(ADD, 2.5));
                k.on_device(0);
            };
            touch(k);
            for step in 0..10 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    convolutions(k, 20, 100.0);
                    k.synchronize();
                });
            }
            touch(k);
        },
    },
    Program {
        name: "k-means on the CPU: sums by index are arithmetic",
        generates_text: false,
        says: &["Compute ops | Idle"],
        never: &["Overhead ops |", "sampling"],
        write: |k| {
            k.without_devices();
            for _ in 0..10 {
                k.op("aten::argmin", |k| k.wait(2000.0));
                k.op("aten::scatter_add_", |k| k.wait(8000.0));
                k.op("aten::bincount", |k| k.wait(400.0));
                k.op("aten::index_add_", |k| k.wait(400.0));
                k.wait(500.0);
            }
        },
    },
    Program {
        name: "a CPU training that waits for its DataLoader",
        generates_text: false,
        says: &["runs on the CPU and waits for its input data for 29.4 %"],
        never: &["lists its ops by time"],
        write: |k| {
            k.without_devices();
            for _ in 0..6 {
                let batch = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
                k.range(batch, |k| k.wait(4000.0));
                k.op("aten::addmm", |k| k.wait(4000.0));
                k.on_thread(BACKWARD, |k| {
                    k.op("autograd::engine::evaluate_function: AddmmBackward0", |k| {
                        k.wait(3000.0);
                    });
                });
                k.range("Optimizer.step#SGD.step", |k| {
                    k.op("aten::_foreach_add_", |k| k.wait(1000.0));
                });
            }
        },
    },
    Program {
        name: "a GPU training that waits for its DataLoader",
        generates_text: false,
        says: &[
            "waits for its input data.",
            "What would help\n\n- training step: GPU idle",
        ],
        never: &["Nothing was found whose gain"],
        write: |k| {
            for _ in 0..6 {
                let batch = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
                k.range(batch, |k| k.wait(20_000.0));
                training_step(k);
            }
        },
    },
    Program {
        name: "ranks of a CPU training that wait for each other",
        generates_text: false,
        says: &["waits for data from other processes"],
        never: &["other devices"],
        write: |k| {
            k.without_devices();
            for step in 0..5 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    k.op("aten::addmm", |k| k.wait(3000.0));
                    k.range("gloo:all_reduce", |k| k.wait(20_000.0));
                });
            }
        },
    },
    Program {
        name: "steps on the CPU, one of them long",
        generates_text: false,
        says: &["the longest takes 7.0× as long as the shortest"],
        never: &[],
        write: |k| {
            k.without_devices();
            for step in 0..6 {
                k.range(&format!("ProfilerStep#{step}"), |k| {
                    let us = if step == 3 { 69_998.0 } else { 9_998.0 };
                    k.op("aten::addmm", |k| k.wait(us - 2.0));
                });
            }
        },
    },
    Program {
        name: "LoRA among GEMMs, and two kernels of one label",
        generates_text: false,
        says: &[
            "LoRA kernels among them 40.0 %",
            "`regular_fft<512> EPT 8 (…padding_t)0, (twiddle_t)0>())`",
        ],
        never: &[],
        write: |k| {
            for _ in 0..20 {
                k.op("aten::linear", |k| k.kernel(GEMM, 40.0));
                k.kernel("_lora_shrink_kernel", 20.0);
                k.kernel("_lora_expand_kernel", 20.0);
                for end in ["", ", (twiddle_t)0"] {
                    let name = "void regular_fft<512u, EPT<8u>, 64u, 16u, (padding_t)0";
                    k.kernel(&format!("{name}{end}>()"), 10.0);
                }
                k.synchronize();
            }
        },
    },
    Program {
        name: "GEMMs alone, on two streams at once",
        generates_text: false,
        says: &["mostly gemm (100.0 % of GPU time): no range divides the trace"],
        never: &["bottleneck unknown: no range"],
        write: |k| {
            for number in 0..60 {
                let us = 100.0 + f64::from(number * number % 37);
                k.op("aten::mm", |k| k.kernel(GEMM, us));
                k.on_stream(9, |k| k.op("aten::mm", |k| k.kernel(GEMM, us)));
            }
        },
    },
];
