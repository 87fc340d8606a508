import { type CSSProperties, memo, type ReactNode, useMemo, useRef, useState } from 'react';
import { isControl, useRovingFocus, useWindow } from './table-rows.ts';
import './table.css';

export interface Column<Entry> {
  readonly id: string;
  readonly header: string;
  readonly cell: (entry: Entry) => ReactNode;
  /**
   * `w` takes the width that is left, `cut` is as wide as a name at most, `r` stands right, `c-lo` is left
   * out on a phone, `c-md` on anything narrow.
   */
  readonly className?: string;
  /** Sort key, if the column can be sorted. */
  readonly sort?: (entry: Entry) => string | number;
}

interface TableProps<Entry> {
  /** Name of the table for screen readers. */
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
  /**
   * Fixed layout: columns have the widths of their classes, and rows are positioned. Rows that come and go
   * five times a second move nothing beside them, cause no layout shift, and need no measuring.
   */
  readonly isFixed?: boolean;
}

/** Column by which the rows are sorted, once somebody has chosen one. */
interface Sorting {
  readonly column: string;
  readonly isDescending: boolean;
}

/** Rows of 32 px, moved through with `j` and `k` or the arrows; Enter opens. */
export function Table<Entry extends object>(props: TableProps<Entry>) {
  const { label, columns, rows, rowId, onOpen, selected, foot, isFixed = false } = props;
  const [sorting, setSorting] = useState<Sorting>();
  const shown = useMemo(() => sorted(rows, columns, sorting), [rows, columns, sorting]);
  const ids = useMemo(() => shown.map(rowId), [shown, rowId]);
  const body = useRef<HTMLTableSectionElement>(null);
  const { slice, before, after, reveal } = useWindow(shown.length, body);
  const roving = useRovingFocus({ ids, selected, body, reveal });

  return (
    <div className="box bleed">
      <table
        className={isFixed ? 'tbl tbl-fixed' : 'tbl'}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table whose rows take the focus is a grid.
        role="grid"
        aria-label={label}
        aria-rowcount={shown.length + 1}
      >
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <HeaderCell
                key={column.id}
                column={column}
                sorting={sorting?.column === column.id ? sorting : undefined}
                onSort={(isDescending) => setSorting({ column: column.id, isDescending })}
              />
            ))}
          </tr>
        </thead>
        <tbody
          ref={body}
          style={isFixed ? placed('--count', shown.length) : undefined}
          onKeyDown={roving.onKeyDown}
        >
          {!isFixed && before > 0 && <Gap height={before} columns={columns.length} />}
          {shown.slice(slice.from, slice.to).map((entry, index) => {
            const id = ids[slice.from + index] ?? '';
            return (
              <tr
                key={id}
                data-row={id}
                aria-rowindex={slice.from + index + 2}
                aria-selected={id === selected}
                tabIndex={id === roving.active ? 0 : -1}
                style={isFixed ? placed('--nth', slice.from + index) : undefined}
                className={onOpen === undefined ? undefined : 'can-open'}
                onFocus={() => roving.setFocused(id)}
                onClick={(event) => !isControl(event.target) && onOpen?.(entry)}
                onKeyDown={(event) => event.key === 'Enter' && !isControl(event.target) && onOpen?.(entry)}
              >
                <Cells columns={columns as readonly Column<object>[]} entry={entry} />
              </tr>
            );
          })}
          {!isFixed && after > 0 && <Gap height={after} columns={columns.length} />}
        </tbody>
      </table>
      {foot !== undefined && foot !== false && <div className="tfoot">{foot}</div>}
    </div>
  );
}

/** Passes a number to the style sheet, which knows the height of a row. */
function placed(name: '--count' | '--nth', value: number): CSSProperties {
  return { [name]: value } as CSSProperties;
}

/** The rows, sorted by the chosen column if there is one. Equal rows keep their order. */
function sorted<Entry>(
  rows: readonly Entry[],
  columns: readonly Column<Entry>[],
  sorting: Sorting | undefined,
): readonly Entry[] {
  const by = columns.find(({ id }) => id === sorting?.column)?.sort;
  if (by === undefined) return rows;
  const sign = sorting?.isDescending === true ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [by(one), by(other)];
    return a === b ? 0 : a < b ? -sign : sign;
  });
}

interface CellsProps {
  readonly columns: readonly Column<object>[];
  readonly entry: object;
}

/**
 * The cells of a row. They are drawn anew only for another entry: a live list moves its rows five times a
 * second.
 */
const Cells = memo(function Cells({ columns, entry }: CellsProps) {
  return columns.map((column) => (
    <td key={column.id} className={column.className}>
      {column.cell(entry)}
    </td>
  ));
});

interface HeaderCellProps<Entry> {
  readonly column: Column<Entry>;
  readonly sorting: Sorting | undefined;
  readonly onSort: (isDescending: boolean) => void;
}

function HeaderCell<Entry>({ column, sorting, onSort }: HeaderCellProps<Entry>) {
  const className = column.className?.replace(/\b(mono|dim|cut)\b/g, '');
  if (column.sort === undefined) return <th className={className}>{column.header}</th>;
  const direction = sorting === undefined ? 'none' : sorting.isDescending ? 'descending' : 'ascending';
  return (
    <th className={className} aria-sort={direction}>
      <button type="button" className="th-sort" onClick={() => onSort(sorting?.isDescending === false)}>
        {column.header}
        <span aria-hidden="true">{sorting === undefined ? '' : sorting.isDescending ? ' ↓' : ' ↑'}</span>
      </button>
    </th>
  );
}

/** Placeholder of rows that are not drawn. */
function Gap({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr className="tbl-gap">
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}
