/** Programs that wait until there is room for more. */
export class Room {
  readonly #isRoomy: () => boolean;
  readonly #waiting = new Set<() => void>();

  constructor(isRoomy: () => boolean) {
    this.#isRoomy = isRoomy;
  }

  /** Resolves to `true` when there is room, to `false` when the time is over. */
  wait(timeout?: number): Promise<boolean> {
    if (this.#isRoomy()) return Promise.resolve(true);
    return new Promise((resolve) => {
      const done = (roomy: boolean) => {
        clearTimeout(late);
        this.#waiting.delete(look);
        resolve(roomy);
      };
      const look = () => {
        if (this.#isRoomy()) done(true);
      };
      const late = timeout === undefined ? undefined : setTimeout(() => done(false), timeout);
      this.#waiting.add(look);
    });
  }

  /** Called when there may be room again. */
  look(): void {
    for (const look of this.#waiting) look();
  }
}
