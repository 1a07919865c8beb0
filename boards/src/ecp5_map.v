// SPDX-License-Identifier: MIT OR Apache-2.0
// Sums of few bits as gates, for Yosys's techmap: a carry chain costs two LUTs for two bits and one or two more where it begins and ends, is placed as
// a whole, and nothing before or behind it goes into its LUTs. Of a wide sum the chain stays.
(* techmap_celltype = "$alu" *)
module ferrowire_narrow_sum (A, B, CI, BI, X, Y, CO);
    parameter A_SIGNED = 0;
    parameter B_SIGNED = 0;
    parameter A_WIDTH = 1;
    parameter B_WIDTH = 1;
    parameter Y_WIDTH = 1;

    (* force_downto *) input [A_WIDTH-1:0] A;
    (* force_downto *) input [B_WIDTH-1:0] B;
    input CI, BI;
    (* force_downto *) output [Y_WIDTH-1:0] X, Y, CO;

    wire _TECHMAP_FAIL_ = Y_WIDTH > 8;

    (* force_downto *) wire [Y_WIDTH-1:0] a, b;
    \$pos #(.A_SIGNED(A_SIGNED), .A_WIDTH(A_WIDTH), .Y_WIDTH(Y_WIDTH)) extend_a (.A(A), .Y(a));
    \$pos #(.A_SIGNED(B_SIGNED), .A_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH)) extend_b (.A(B), .Y(b));

    (* force_downto *) wire [Y_WIDTH-1:0] added = BI ? ~b : b;
    (* force_downto *) wire [Y_WIDTH:0] carry;
    assign carry[0] = CI;
    assign X = a ^ added;
    assign Y = X ^ carry[Y_WIDTH-1:0];
    assign CO = carry[Y_WIDTH:1];
    genvar i;
    generate
        for (i = 0; i < Y_WIDTH; i = i + 1) begin : bits
            assign carry[i+1] = (a[i] & added[i]) | (X[i] & carry[i]);
        end
    endgenerate
endmodule

// A LUT RAM of which no more than half is used has constants as upper bits of its addresses, and a constant is a net that crosses the chip to each of
// five pins of each cell. The lowest bit of the address does as well there: it is at these cells anyhow, and goes up to another place of the RAM in
// reading as in writing. What a RAM holds from the start would have to move as well, so one that holds anything stays.
(* techmap_celltype = "TRELLIS_DPR16X4" *)
module ferrowire_lut_ram_address (DI, WAD, WRE, WCK, RAD, DO);
    parameter WCKMUX = "WCK";
    parameter WREMUX = "WRE";
    parameter [63:0] INITVAL = 64'h0;
    parameter _TECHMAP_CONSTMSK_WAD_ = 4'h0;
    parameter _TECHMAP_CONSTVAL_WAD_ = 4'h0;
    parameter _TECHMAP_CONSTMSK_RAD_ = 4'h0;
    parameter _TECHMAP_CONSTVAL_RAD_ = 4'h0;

    input [3:0] DI, WAD, RAD;
    input WRE, WCK;
    output [3:0] DO;

    // Bits that are the same constant in both addresses.
    localparam [3:0] UNUSED = _TECHMAP_CONSTMSK_WAD_ & _TECHMAP_CONSTMSK_RAD_ & ~(_TECHMAP_CONSTVAL_WAD_ ^ _TECHMAP_CONSTVAL_RAD_);
    wire _TECHMAP_FAIL_ = UNUSED == 4'h0 || _TECHMAP_CONSTMSK_WAD_[0] || _TECHMAP_CONSTMSK_RAD_[0] || (INITVAL !== 64'h0 && INITVAL !== 64'bx);

    TRELLIS_DPR16X4 #(.WCKMUX(WCKMUX), .WREMUX(WREMUX), .INITVAL(INITVAL)) _TECHMAP_REPLACE_ (
        .DI(DI), .WRE(WRE), .WCK(WCK), .DO(DO),
        .WAD((WAD & ~UNUSED) | (UNUSED & {4{WAD[0]}})),
        .RAD((RAD & ~UNUSED) | (UNUSED & {4{RAD[0]}}))
    );
endmodule
