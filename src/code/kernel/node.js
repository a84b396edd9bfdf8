// SPDX-License-Identifier: Apache-2.0
// node.js - the kernel of JavaScript
(require) => {}
