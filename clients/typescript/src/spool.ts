/** Calls on the disk of this machine until they are answered for. Only for Node. */
export { type DiskSpoolOptions, diskSpool } from './spool/disk-spool.ts';
