/** One value of a metric, identified by its labels. */
export interface MetricSample {
  readonly labels: MetricLabels;
  readonly value: number;
}

export type MetricLabels = Readonly<Record<string, string>>;

/** All samples of one name. A family without samples is printed too, with its help. */
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

/** A cumulative histogram. */
export interface HistogramSample {
  readonly labels: MetricLabels;
  /**
   * Upper bounds, ascending, each with the number of values up to it. `count` is the bucket without a bound.
   */
  readonly buckets: readonly { readonly atMost: number; readonly n: number }[];
  readonly sum: number;
  readonly count: number;
}

/** The media type of `formatMetrics`. */
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
