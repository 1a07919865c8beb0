// SPDX-License-Identifier: MIT OR Apache-2.0
// hdl/rtl/tests/snapshot.rs:56
module fifo (
    input  wire clk,
    input  wire rst,
    input  wire input_valid,
    input  wire [31:0] input_data,
    input  wire input_last,
    input  wire output_ready,
    output wire input_ready,
    output wire output_valid,
    output wire [31:0] output_data,
    output wire output_last,
    output reg  [4:0] level
);
    reg  [3:0] head; // hdl/rtl/tests/snapshot.rs:25
    reg  [3:0] tail; // hdl/rtl/tests/snapshot.rs:26
    reg  state; // hdl/rtl/tests/snapshot.rs:28
    wire pop; // hdl/rtl/tests/snapshot.rs:34
    reg  [32:0] words_q; // hdl/rtl/tests/snapshot.rs:35
    reg  bypass; // hdl/rtl/tests/snapshot.rs:35
    reg  [32:0] bypass_word; // hdl/rtl/tests/snapshot.rs:35
    wire output_ready_1; // hdl/rtl/tests/snapshot.rs:36
    localparam OUTPUT_EMPTY = 1'b0;
    localparam OUTPUT_FULL = 1'b1;
    wire push = input_valid & input_ready; // hdl/rtl/tests/snapshot.rs:30
    wire [32:0] cat_32 = {input_last, input_data}; // hdl/rtl/tests/snapshot.rs:32
    wire [32:0] mux_35 = bypass ? bypass_word : words_q; // hdl/rtl/tests/snapshot.rs:35
    wire when_44 = ~pop & output_ready_1; // hdl/rtl/tests/snapshot.rs:44
    wire when_45 = push & ~pop; // hdl/rtl/tests/snapshot.rs:45
    wire when_46 = ~when_45 & (~push & pop); // hdl/rtl/tests/snapshot.rs:46
    assign input_ready = level != 5'd16;
    assign pop = (level != 5'd0) & (~state | output_ready_1); // hdl/rtl/tests/snapshot.rs:34
    assign output_ready_1 = output_ready; // hdl/rtl/tests/snapshot.rs:36
    always @(posedge clk) begin
        if (rst) begin
            head <= 4'd0;
        end else if (push) begin
            head <= head + 4'd1;
        end
    end
    always @(posedge clk) begin
        if (rst) begin
            tail <= 4'd0;
        end else if (pop) begin
            tail <= tail + 4'd1;
        end
    end
    always @(posedge clk) begin
        if (rst) begin
            level <= 5'd0;
        end else if (when_46) begin
            level <= level - 5'd1;
        end else if (when_45) begin
            level <= level + 5'd1;
        end
    end
    always @(posedge clk) begin
        if (rst) begin
            state <= 1'b0;
        end else if (when_44) begin
            state <= OUTPUT_EMPTY;
        end else if (pop) begin
            state <= OUTPUT_FULL;
        end
    end
    always @(posedge clk) begin
        if (rst) begin
            bypass <= 1'b0;
        end else if (pop) begin
            bypass <= (pop & push) & (head == tail);
        end
    end
    always @(posedge clk) begin
        if (pop) begin
            bypass_word <= cat_32;
        end
    end
    (* no_rw_check *)
    reg [32:0] words [0:15]; // hdl/rtl/tests/snapshot.rs:24
    always @(posedge clk) begin
        if (push) words[head] <= cat_32;
    end
    always @(posedge clk) begin
        if (pop) words_q <= words[tail];
    end
    assign output_valid = state;
    assign output_data = mux_35[31:0];
    assign output_last = mux_35[32];
`ifdef FORMAL
    always @(posedge clk) if (!rst) assert ((level <= 5'd16)); // hdl/rtl/tests/snapshot.rs:47 the level stays within the depth
`elsif FERROWIRE_ASSERT
    always @(posedge clk) if (!rst && !((level <= 5'd16))) begin $display("%m: the level stays within the depth (hdl/rtl/tests/snapshot.rs:47)"); $stop; end // hdl/rtl/tests/snapshot.rs:47
`endif
endmodule

// hdl/rtl/tests/snapshot.rs:52
module top (
    input  wire clk,
    input  wire rst,
    input  wire in_valid,
    input  wire [31:0] in_data,
    input  wire in_last,
    input  wire out_ready,
    output wire in_ready,
    output wire [4:0] level,
    output wire out_valid,
    output wire [31:0] out_data,
    output wire out_last
);
    wire in_ready_i; // hdl/rtl/tests/snapshot.rs:54
    wire fifo_input_ready; // hdl/rtl/tests/snapshot.rs:55
    wire fifo_output_valid; // hdl/rtl/tests/snapshot.rs:55
    wire output_ready; // hdl/rtl/tests/snapshot.rs:55
    wire [31:0] fifo_output_data; // hdl/rtl/tests/snapshot.rs:55
    wire fifo_output_last; // hdl/rtl/tests/snapshot.rs:55
    wire [4:0] fifo_level; // hdl/rtl/tests/snapshot.rs:55
    wire second_fifo_input_ready; // hdl/rtl/tests/snapshot.rs:56
    wire second_fifo_output_valid; // hdl/rtl/tests/snapshot.rs:56
    wire output_ready_1; // hdl/rtl/tests/snapshot.rs:56
    wire [31:0] second_fifo_output_data; // hdl/rtl/tests/snapshot.rs:56
    wire second_fifo_output_last; // hdl/rtl/tests/snapshot.rs:56
    wire [4:0] second_fifo_level; // hdl/rtl/tests/snapshot.rs:56
    assign in_ready_i = fifo_input_ready; // hdl/rtl/tests/snapshot.rs:54
    assign output_ready = second_fifo_input_ready; // hdl/rtl/tests/snapshot.rs:55
    assign output_ready_1 = out_ready; // hdl/rtl/tests/snapshot.rs:56
    fifo fifo (
        .clk(clk),
        .rst(rst),
        .input_valid(in_valid),
        .input_data(in_data),
        .input_last(in_last),
        .output_ready(output_ready),
        .input_ready(fifo_input_ready),
        .output_valid(fifo_output_valid),
        .output_data(fifo_output_data),
        .output_last(fifo_output_last),
        .level(fifo_level)
    ); // hdl/rtl/tests/snapshot.rs:55
    fifo second_fifo (
        .clk(clk),
        .rst(rst),
        .input_valid(fifo_output_valid),
        .input_data(fifo_output_data),
        .input_last(fifo_output_last),
        .output_ready(output_ready_1),
        .input_ready(second_fifo_input_ready),
        .output_valid(second_fifo_output_valid),
        .output_data(second_fifo_output_data),
        .output_last(second_fifo_output_last),
        .level(second_fifo_level)
    ); // hdl/rtl/tests/snapshot.rs:56
    assign in_ready = in_ready_i;
    assign level = fifo_level;
    assign out_valid = second_fifo_output_valid;
    assign out_data = second_fifo_output_data;
    assign out_last = second_fifo_output_last;
    wire _unused_ok = &{1'b0,
        second_fifo_level};
endmodule
