/** The rounds of a worker that are in flight, so that somebody can wait for those of a moment while later ones begin. */
export class RoundsInFlight {
  count = 0;
  /** Those in flight that had begun at the last mark. */
  marked = 0;
  #marks = 0;

  /** A round begins. Returns what `end` needs. */
  begin(): number {
    this.count++;
    return this.#marks;
  }

  end(begunAt: number): void {
    this.count--;
    if (begunAt !== this.#marks) this.marked--;
  }

  /** Marks the rounds in flight. Whoever waits for an earlier mark waits for this one too. */
  mark(): void {
    this.#marks++;
    this.marked = this.count;
  }
}
