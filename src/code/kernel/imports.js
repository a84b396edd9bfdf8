// SPDX-License-Identifier: Apache-2.0
// imports.js - part of the kernel of JavaScript
