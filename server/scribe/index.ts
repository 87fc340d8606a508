/** All that the program sees of this module: `../src/ingest/scribe.ts` says what it means there. */
export { ACCOUNTS } from './accounts';
export { listFrom, listTo, scanBatch } from './batch';
export { arrive, inherit, PIECES } from './envelope';
export { forgetNames, learn, roomOfName } from './keys';
export { limit } from './limits';
export { calls, oddCalls, scanOne } from './records';
export { transcribe } from './transcribe';
