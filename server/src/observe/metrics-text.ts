/** One measured value with the labels that tell it from the others of its name. */
export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export type Labels = Readonly<Record<string, string>>;

/** Everything of one name. Those without samples are printed too: what a name means is the same before it is used. */
export type Family =
  | {
      readonly name: string;
      readonly type: 'counter' | 'gauge';
      readonly help: string;
      readonly samples: readonly Sample[];
    }
  | {
      readonly name: string;
      readonly type: 'histogram';
      readonly help: string;
      readonly samples: readonly Distribution[];
    };

/** How often a value was at most so large. */
export interface Distribution {
  readonly labels: Labels;
  /** Upper bounds in rising order, each with how many values were not above it. The one without a bound is `count`. */
  readonly buckets: readonly { readonly atMost: number; readonly n: number }[];
  readonly sum: number;
  readonly count: number;
}

/** What Prometheus wants to be told of the text. */
export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The text format of Prometheus, version 0.0.4. */
export function metricsText(families: readonly Family[]): string {
  let text = '';
  for (const family of families) {
    const { name, type, help } = family;
    text += `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n`;
    if (family.type === 'histogram') for (const one of family.samples) text += histogramLines(name, one);
    else for (const { labels, value } of family.samples) text += line(name, labels, value);
  }
  return text;
}

function histogramLines(name: string, { labels, buckets, sum, count }: Distribution): string {
  let text = '';
  for (const { atMost, n } of buckets) text += line(`${name}_bucket`, { ...labels, le: String(atMost) }, n);
  text += line(`${name}_bucket`, { ...labels, le: '+Inf' }, count);
  return text + line(`${name}_sum`, labels, sum) + line(`${name}_count`, labels, count);
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escaped(text).replaceAll('"', '\\"')}"`,
  );
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}
