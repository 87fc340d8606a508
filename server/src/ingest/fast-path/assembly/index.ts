/** Everything that the program sees of this module. `../parser.ts` says what it means there. */

export { DESCRIPTORS, PIECES, setAddress, setLimits, setRequest, setShared } from './host';
export { clearNames, nameAddress, registerName } from './json';
export { calls, listFrom, listTo, nonCanonicalCalls, scanBatch, scanOne } from './scan';
export { encode } from './write';
