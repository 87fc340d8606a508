import {
  createSortedRowModel,
  type Row,
  rowSortingFeature,
  type SortingState,
  sortFns,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, type ReactNode, useLayoutEffect, useRef, useState } from 'react';
import { useShortcut } from './shortcuts.ts';

export interface Column<Entry> {
  readonly id: string;
  readonly header: string;
  readonly cell: (entry: Entry) => ReactNode;
  /** `w` takes the width that is left, `r` stands right, `c-lo` is left out on a phone, `c-md` on anything narrow. */
  readonly className?: string;
  /** Where the column can be sorted by. */
  readonly sort?: (entry: Entry) => string | number;
}

interface TableProps<Entry> {
  /** What the rows are, for screen readers. */
  readonly label: string;
  readonly columns: readonly Column<Entry>[];
  readonly rows: readonly Entry[];
  readonly rowId: (entry: Entry) => string;
  /** Enter or a click on a row. */
  readonly onOpen?: (entry: Entry) => void;
  /** Id of the row that is open beside the table. */
  readonly selected?: string | undefined;
  /** Below the rows. */
  readonly foot?: ReactNode;
}

const features = tableFeatures({
  rowSortingFeature,
  sortedRowModel: createSortedRowModel(),
  sortFns,
});

/** A table with more rows than this draws only those on the screen. */
const DRAWN = 80;

/** Rows of 32 px, moved through with `j` and `k` or the arrows; Enter opens. */
export function Table<Entry extends object>(props: TableProps<Entry>) {
  const { label, columns, rows, rowId, onOpen, selected, foot } = props;
  const [sorting, setSorting] = useState<SortingState>([]);
  const table = useTable({
    features,
    columns: columns.map(({ id, header, sort }) => ({
      id,
      header,
      accessorFn: sort ?? (() => 0),
      enableSorting: sort !== undefined,
    })),
    data: rows as Entry[],
    getRowId: rowId,
    state: { sorting },
    onSortingChange: setSorting,
  });
  const shown = table.getRowModel().rows as Row<typeof features, Entry>[];
  const body = useRef<HTMLTableSectionElement>(null);
  const { slice, before, after, reveal } = useWindow(shown.length, body);
  const roving = useRovingFocus({ ids: shown.map(({ id }) => id), selected, body, reveal });

  return (
    <div className="box bleed">
      {/* biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose rows take the focus is a grid. */}
      <table className="tbl" role="grid" aria-label={label} aria-rowcount={shown.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <HeaderCell
                key={column.id}
                column={column}
                sorted={sorting.find(({ id }) => id === column.id)}
                onSort={(desc) => setSorting([{ id: column.id, desc }])}
              />
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={roving.onKeyDown}>
          {before > 0 && <Gap height={before} columns={columns.length} />}
          {shown.slice(slice.from, slice.to).map(({ id, original }, index) => (
            <tr
              key={id}
              data-row={id}
              aria-rowindex={slice.from + index + 2}
              aria-selected={id === selected}
              tabIndex={id === roving.active ? 0 : -1}
              className={onOpen === undefined ? undefined : 'can-open'}
              onFocus={() => roving.setFocused(id)}
              onClick={(event) => !isControl(event.target) && onOpen?.(original)}
              onKeyDown={(event) => event.key === 'Enter' && !isControl(event.target) && onOpen?.(original)}
            >
              {columns.map((column) => (
                <td key={column.id} className={column.className}>
                  {column.cell(original)}
                </td>
              ))}
            </tr>
          ))}
          {after > 0 && <Gap height={after} columns={columns.length} />}
        </tbody>
      </table>
      {foot !== undefined && <div className="tfoot">{foot}</div>}
    </div>
  );
}

interface HeaderCellProps<Entry> {
  readonly column: Column<Entry>;
  readonly sorted: { readonly desc: boolean } | undefined;
  readonly onSort: (desc: boolean) => void;
}

function HeaderCell<Entry>({ column, sorted, onSort }: HeaderCellProps<Entry>) {
  const className = column.className?.replace(/\b(mono|dim)\b/g, '');
  if (column.sort === undefined) return <th className={className}>{column.header}</th>;
  const direction = sorted === undefined ? 'none' : sorted.desc ? 'descending' : 'ascending';
  return (
    <th className={className} aria-sort={direction}>
      <button type="button" className="th-sort" onClick={() => onSort(sorted?.desc === false)}>
        {column.header}
        <span aria-hidden="true">{sorted === undefined ? '' : sorted.desc ? ' ↓' : ' ↑'}</span>
      </button>
    </th>
  );
}

/** Stands for rows that are not drawn. */
function Gap({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr className="tbl-gap">
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}

/** A link or a button in a row acts for itself. */
function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, select') !== null;
}

/** Which rows are on the screen, and how high those before and after them are. */
function useWindow(count: number, body: React.RefObject<HTMLTableSectionElement | null>) {
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    const box = body.current?.getBoundingClientRect();
    if (box !== undefined) setTop(box.top + window.scrollY);
  }, [body]);
  const virtualizer = useWindowVirtualizer({
    count,
    estimateSize: () => (matchMedia('(max-width: 720px)').matches ? 52 : 32),
    overscan: 12,
    scrollMargin: top,
    enabled: count > DRAWN,
  });
  const items = virtualizer.getVirtualItems();
  const [first, last] = [items[0], items.at(-1)];
  if (count <= DRAWN || first === undefined || last === undefined) {
    return { slice: { from: 0, to: count <= DRAWN ? count : DRAWN }, before: 0, after: 0, reveal: () => {} };
  }
  return {
    slice: { from: first.index, to: last.index + 1 },
    before: first.start - top,
    after: virtualizer.getTotalSize() - (last.end - top),
    reveal: (index: number) => virtualizer.scrollToIndex(index),
  };
}

interface RovingOptions {
  readonly ids: readonly string[];
  readonly selected: string | undefined;
  readonly body: React.RefObject<HTMLTableSectionElement | null>;
  readonly reveal: (index: number) => void;
}

/** One row of the table is in the tab order; the others are reached from it. */
function useRovingFocus({ ids, selected, body, reveal }: RovingOptions) {
  const [focused, setFocused] = useState<string>();
  const wanted = [focused, selected].find((id) => id !== undefined && ids.includes(id));
  const active = wanted ?? ids[0];
  const go = (index: number): void => {
    const id = ids[Math.max(0, Math.min(index, ids.length - 1))];
    if (id === undefined) return;
    setFocused(id);
    reveal(ids.indexOf(id));
    requestAnimationFrame(() => {
      const row = [...(body.current?.rows ?? [])].find((candidate) => candidate.dataset['row'] === id);
      row?.focus({ preventScroll: false });
    });
  };
  const at = active === undefined ? -1 : ids.indexOf(active);
  const isFocusInside = (): boolean => body.current?.contains(document.activeElement) ?? false;
  const step = (by: number): void => go(wanted === undefined && !isFocusInside() ? 0 : at + by);
  useShortcut('j', 'Next row', () => step(1));
  useShortcut('k', 'Previous row', () => step(-1));
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    Home: 0,
    End: ids.length - 1,
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const target = targets[event.key];
    if (target === undefined || isControl(event.target)) return;
    event.preventDefault();
    go(target);
  };
  return { active, setFocused, onKeyDown };
}
