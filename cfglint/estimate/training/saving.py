"""Saving a checkpoint between steps: what is gathered on the device, and what waits in the host's memory of rank 0.

Weights and optimizer states leave the device tensor by tensor, so one device needs nothing more. Sharded parameters are
gathered first, as each way of sharding does it. Bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cfglint.estimate.training.parameters import Parameters
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.sharding import outer_elements, stored_bytes
from cfglint.estimate.training.states import States
from cfglint.estimate.training.tape import DTYPE_BYTES


@dataclass(frozen=True, slots=True)
class Saving:
    """``device``: on top of weights and states, on every rank. ``host``: on the node of rank 0, where it writes."""

    device: float = 0.0
    host: float = 0.0


def saving_of(plan: Plan, parameters: Parameters, states: States, layers: int) -> Saving:
    """What a checkpoint needs of this stage's parameters.

    FSDP 1 gathers unit by unit in the dtype they are stored in (torch 2.13 ``distributed/fsdp/_unshard_param_utils.py``). For a
    full state dict each leaves for rank 0's host at once; for a sharded one the outer group stays while its blocks follow
    (``_state_dict_utils.py``: ``_full_pre_state_dict_hook``, ``_sharded_pre_state_dict_hook``). FSDP 2 gathers a
    full state dict tensor by tensor (``distributed/_state_dict_utils.py``, ``_iterate_state_dict``) and a sharded one not at
    all. DeepSpeed's stage 3 gathers 16-bit weights module by module (``runtime/engine.py``,
    ``_zero3_consolidated_16bit_state_dict``). A full state dict waits on rank 0's host: the weights, then the optimizer's
    states (accelerate 1.15 ``utils/fsdp_utils.py``, both with ``offload_to_cpu`` and ``rank0_only``).
    """
    if not layers or plan.state_dict == "none":
        return Saving()
    stored = stored_bytes(plan)
    device = 0.0
    if plan.sharding == "fsdp1":
        units = (outer_elements(parameters), (parameters.linear + parameters.experts + parameters.rest) / layers)
        device = (max(units) if plan.state_dict == "full" else sum(units)) * stored
    elif plan.sharding == "fsdp2" and plan.state_dict == "full":
        device = parameters.largest * stored
    elif plan.sharding == "zero3" and plan.state_dict == "full":
        device = parameters.largest * DTYPE_BYTES[plan.compute_dtype or plan.weight_dtype]
    if plan.state_dict != "full":
        return Saving(device)
    optimizer = states.all_optimizer if plan.saves_optimizer and plan.sharding != "zero3" else 0.0
    return Saving(device, max(states.all_weights, optimizer))


__all__ = ["Saving", "saving_of"]
