"""`servesweep collectives IN OUT`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweep.arguments import Parser
from sweep.errors import UserError
from sweep.files import check_target


def main(argv: Sequence[str]) -> int:
    """Price a table of collectives; returns the exit status."""
    parser = Parser(
        prog="servesweep collectives",
        example="servesweep collectives sizes.csv times.csv",
        description="Times of all-reduce, all-gather, reduce-scatter, all-to-all, p2p and expert dispatch and combine. "
        "Columns in: id, hardware, n_gpus, n_nodes, implementation (nccl, vllm, sglang, trtllm, atom), nvls (auto, on, "
        "off), primitive (all_reduce), algorithm (auto), bytes. Columns out: id, status, reason, time_us, busbw_gbps, "
        "algorithm, priced_by.",
    )
    parser.add_argument("table_in", metavar="IN", type=Path, help="csv, parquet or jsonl")
    parser.add_argument("table_out", metavar="OUT", type=Path, help="csv, parquet or jsonl")
    parser.add_argument("--fidelity", choices=("fitted", "roofline"), default="fitted")
    parser.add_argument(
        "--network-backend",
        choices=("analytical", "ns3"),
        default="analytical",
        help="ns3 simulates the network packet by packet (optional package ns3); launch and protocol left out",
    )
    arguments = parser.parse_args(argv)

    check_target(arguments.table_out, "OUT")
    from sweep.collectives import COLUMNS, price_collectives
    from sweep.table_io import read_table, tell, write_table

    table = read_table(arguments.table_in)
    try:
        result = price_collectives(
            table, fidelity=arguments.fidelity, network_backend=arguments.network_backend
        )
    except UserError as error:
        raise error.located(str(arguments.table_in), None) from None
    tell("collectives", arguments.table_in, table, COLUMNS)
    write_table(result, arguments.table_out)
    invalid = int((result["status"] == "invalid").sum())
    print(f"{result.height - invalid} priced, {invalid} invalid -> {arguments.table_out}", file=sys.stderr)
    return 0
