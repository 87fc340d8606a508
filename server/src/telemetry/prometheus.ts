import type { Duration } from '../model/time.ts';

/** One measured value with the labels that tell it from the others of its name. */
export interface MetricSample {
  readonly labels: MetricLabels;
  readonly value: number;
}

export type MetricLabels = Readonly<Record<string, string>>;

/** Everything of one name. Those without samples are printed too: what a name means is the same before it is used. */
export type MetricFamily =
  | {
      readonly name: string;
      readonly type: 'counter' | 'gauge';
      readonly help: string;
      readonly samples: readonly MetricSample[];
    }
  | {
      readonly name: string;
      readonly type: 'histogram';
      readonly help: string;
      readonly samples: readonly HistogramSample[];
    };

/** How often a value was at most so large. */
export interface HistogramSample {
  readonly labels: MetricLabels;
  /** Upper bounds in rising order, each with how many values were not above it. The one without a bound is `count`. */
  readonly buckets: readonly { readonly atMost: number; readonly n: number }[];
  readonly sum: number;
  readonly count: number;
}

/** What Prometheus wants to be told of the text. */
export const PROMETHEUS_CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The text format of Prometheus, version 0.0.4. */
export function formatMetrics(families: readonly MetricFamily[]): string {
  let text = '';
  for (const family of families) {
    const { name, type, help } = family;
    text += `# HELP ${name} ${escapeText(help)}\n# TYPE ${name} ${type}\n`;
    if (family.type === 'histogram') for (const one of family.samples) text += histogramLines(name, one);
    else for (const { labels, value } of family.samples) text += sampleLine(name, labels, value);
  }
  return text;
}

function histogramLines(name: string, { labels, buckets, sum, count }: HistogramSample): string {
  let text = '';
  for (const { atMost, n } of buckets)
    text += sampleLine(`${name}_bucket`, { ...labels, le: String(atMost) }, n);
  text += sampleLine(`${name}_bucket`, { ...labels, le: '+Inf' }, count);
  return text + sampleLine(`${name}_sum`, labels, sum) + sampleLine(`${name}_count`, labels, count);
}

function sampleLine(name: string, labels: MetricLabels, value: number): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escapeText(text).replaceAll('"', '\\"')}"`,
  );
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`;
}

function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

const SECONDS = 1000;

/** Counts durations by how long they are: one addition each, whatever their number. */
export class Histogram {
  readonly #bounds: readonly Duration[];
  /** One more than there are bounds: the last is for what is above all of them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds` in milliseconds, rising. */
  constructor(bounds: readonly Duration[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  add(duration: Duration): void {
    const bounds = this.#bounds;
    let place = 0;
    while (place < bounds.length && duration > bounds[place]!) place++;
    this.#counts[place]!++;
    this.#sum += duration;
  }

  /** In seconds, as Prometheus wants all times. */
  read(labels: MetricLabels): HistogramSample {
    let count = 0;
    const buckets = this.#bounds.map((bound, place) => {
      count += this.#counts[place]!;
      return { atMost: bound / SECONDS, n: count };
    });
    count += this.#counts[this.#bounds.length]!;
    return { labels, buckets, sum: this.#sum / SECONDS, count };
  }
}
