/* For ops.c and op_checks.c only: sets of roles of enum role (kernels/ops.h). */
#pragma once

#define BIT(role) ROLE_SET(role)

/* Batch norm's inputs in the forward pass, its statistics, and its tensors with a value per
 * channel. Z_BN_*: the tensors of the residual's batch norm that the backward pass reads or
 * writes. */
#define BN_INPUTS     (BIT(X) | BIT(GAMMA) | BIT(BETA) | BIT(Z) | BIT(RMEAN) | BIT(RVAR))
#define BN_STATISTICS (BIT(MEAN) | BIT(INVSTD) | BIT(RMEAN) | BIT(RVAR))
#define BN_CHANNELS   (BIT(MEAN) | BIT(INVSTD) | BIT(DGAMMA) | BIT(DBETA))
#define Z_BN_READ     (BIT(Z_GAMMA) | BIT(Z_MEAN) | BIT(Z_INVSTD))
#define Z_BN_WRITTEN  (BIT(Z_DGAMMA) | BIT(Z_DBETA))
