/** The disk of the data folder and the files in that folder, in bytes. */
export interface DiskUse {
  readonly size: number;
  /** Available to this process. */
  readonly free: number;
  /** Of all files in the folder. */
  readonly used: number;
  /** The same by what the files hold. */
  readonly parts: DiskParts;
}

/** A part that takes no space is absent. */
export interface DiskParts {
  /** Events, their keys, and what is owed. */
  readonly store?: number;
  /** Bytes that were written last to store and profiles, until they are copied into their files. */
  readonly writeAheadLog?: number;
  readonly profiles?: number;
  readonly timeline?: number;
  readonly other?: number;
}

/** Resolves to undefined where the folder or its disk cannot be asked. */
export type ReadDiskUse = () => Promise<DiskUse | undefined>;
