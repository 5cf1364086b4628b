// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Shares} from "./Shares.sol";

/// @title Varsel
/// @notice What can be seen of VaRSeL's shares without the updates' bytes (docs/protocol.md 7.1).
library Varsel {
    /// @notice Whether posted shares are of the rule's form: internal updates share alike, but for what divisions leave, which
    /// the first of them has; no external one has more than an internal one, and all together no more than `budget` of them.
    /// @param shares p_0, which the caller has checked, and one for each revealed update.
    /// @param included Which updates count, as a set.
    /// @param own Which updates are internal, as a set.
    function hasForm(uint32[] calldata shares, uint256 included, uint256 own, uint256 budget)
        internal
        pure
        returns (bool)
    {
        (uint256 internals, uint256 externals) = (0, 0);
        (uint256 first, uint256 share) = (0, 0);
        (uint256 largest, uint256 taken) = (0, 0);
        unchecked {
            // At most 128 shares of 32 bits.
            for (uint256 i = 1; i < shares.length; (++i, included >>= 1, own >>= 1)) {
                uint256 part = shares[i];
                if (included & 1 == 0) {
                    if (part != 0) return false;
                } else if (own & 1 == 0) {
                    ++externals;
                    taken += part;
                    if (part > largest) largest = part;
                } else {
                    // The second says what an internal update has; one alone has what the first has.
                    if (++internals == 1) first = part;
                    if (internals <= 2) share = part;
                    if (part != share) return false;
                }
            }
            // One internal update has no spread, and nothing external lowers it.
            if (internals == 0 || (internals == 1 && taken != 0)) return false;
            bool isRest = first >= share && first - share < internals + 2 * externals;
            bool isBounded = largest <= share && taken <= budget * share;
            return isRest && isBounded && first + (internals - 1) * share + taken == Shares.TOTAL;
        }
    }
}
