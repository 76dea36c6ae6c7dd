//! Trials and telemetry as Apache Parquet, for tools that read columns: DuckDB, pandas, polars, Spark.
//!
//! Written with the crate's own columns and without arrow. A cell that was not measured is null. The unit of each
//! column stands in the file's metadata under `edgedyno.units`.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use edgedyno_shared::telemetry::{NOT_READ, Quality};
use parquet::basic::{Compression, GzipLevel, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::records::{self, LaneRecords};
use crate::source::Source;
use crate::store::rows::CaseEntry;

use super::csv::own_labels;
use super::output::while_writing;
use super::{ExportError, Exporter, Output};

pub(super) struct Parquet;

/// Names the form of the files.
const DOCUMENT: &str = "edgedyno/parquet/1";

const TRIALS: &str = "trials.parquet";
const TELEMETRY: &str = "telemetry.parquet";

/// Rows of one group: what is held at once, and what a reader can skip.
const GROUP: usize = 256 * 1024;

impl Exporter for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn about(&self) -> &'static str {
        "a folder: trials.parquet and, where the board was watched, telemetry.parquet"
    }

    fn makes_folder(&self) -> bool {
        true
    }

    fn write(
        &self,
        source: &Source,
        cases: &[&CaseEntry],
        output: &mut Output,
    ) -> Result<(), ExportError> {
        output.file(TRIALS, |to| trials(source, cases, to))?;
        if !is_watched(source, cases)? {
            return Ok(());
        }
        output.file(TELEMETRY, |to| telemetry(source, cases, to))
    }
}

fn trials(source: &Source, cases: &[&CaseEntry], to: &mut dyn Write) -> Result<(), ExportError> {
    let failed = while_writing(TRIALS);
    let run = source.run()?.id.0;
    let own = own_labels(source, cases)?;
    let mut columns = vec![
        Column::text("run"),
        Column::text("case"),
        Column::integer("repeat", "count"),
        Column::integer("attempt", "count"),
        Column::text("pass"),
        Column::integer("lane", "count"),
        Column::integer("trial", "count"),
        Column::text("role"),
        Column::text("status"),
        Column::double("latency_ms", "ms"),
    ];
    for label in &own {
        columns.push(Column::integer(label, unit_of(source, cases, label)?));
    }
    let mut file = File::new(to, columns).map_err(&failed)?;
    for case in cases {
        records::each_lane(source, case.key, |lane| {
            put_lane(&mut file, &run, lane, &own).map_err(&failed)
        })?;
    }
    file.finish().map_err(failed)
}

fn put_lane(file: &mut File<'_>, run: &str, lane: &LaneRecords, own: &[String]) -> io::Result<()> {
    let labels = lane.labels();
    let places: Vec<Option<usize>> = own
        .iter()
        .map(|label| labels.iter().position(|l| l == label))
        .collect();
    for record in lane.records() {
        let [
            case,
            repeat,
            attempt,
            pass,
            of_lane,
            trial,
            role,
            status,
            latency,
        ] = record.leading();
        let columns = &mut file.columns;
        columns[0].put_text(Some(run));
        columns[1].put_text(case.as_str());
        columns[2].put_integer(repeat.as_i64());
        columns[3].put_integer(attempt.as_i64());
        columns[4].put_text(pass.as_str());
        columns[5].put_integer(of_lane.as_i64());
        columns[6].put_integer(trial.as_i64());
        columns[7].put_text(role.as_str());
        columns[8].put_text(status.as_str());
        columns[9].put_double(latency.as_f64());
        let values: Vec<Option<i64>> = record.own().collect();
        for (column, place) in columns[10..].iter_mut().zip(&places) {
            column.put_integer(place.and_then(|at| values[at]));
        }
        file.end_row()?;
    }
    Ok(())
}

/// The unit that the first lane with such a column declares.
fn unit_of(source: &Source, cases: &[&CaseEntry], label: &str) -> Result<String, ExportError> {
    for case in cases {
        for repeat in source.view(case.key)?.repeats {
            let mut specs = repeat.row.schemas.iter().flat_map(|schema| &schema.columns);
            if let Some(spec) = specs.find(|spec| spec.label() == label) {
                return Ok(spec.unit.clone());
            }
        }
    }
    Ok("unknown".into())
}

fn is_watched(source: &Source, cases: &[&CaseEntry]) -> Result<bool, ExportError> {
    for case in cases {
        let view = source.view(case.key)?;
        if view
            .repeats
            .iter()
            .any(|repeat| !repeat.row.channels.is_empty())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn telemetry(source: &Source, cases: &[&CaseEntry], to: &mut dyn Write) -> Result<(), ExportError> {
    let failed = while_writing(TELEMETRY);
    let run = source.run()?.id.0;
    let columns = vec![
        Column::text("run"),
        Column::text("case"),
        Column::integer("repeat", "count"),
        Column::integer("attempt", "count"),
        Column::text("channel"),
        Column::text("unit"),
        Column::text("kind"),
        Column::text("fidelity"),
        Column::integer("at_ns", "ns"),
        Column::integer("value", "see the column unit"),
        Column::text("quality"),
    ];
    let mut file = File::new(to, columns).map_err(&failed)?;
    for case in cases {
        let key = &case.key.to_string()[..8];
        for repeat in source.view(case.key)?.repeats {
            for channel in &repeat.row.channels {
                let samples = source.samples(&repeat.row, channel.id)?;
                let cells = samples
                    .at_ns
                    .iter()
                    .zip(&samples.value)
                    .zip(&samples.quality);
                for ((at, value), quality) in cells {
                    let columns = &mut file.columns;
                    columns[0].put_text(Some(&run));
                    columns[1].put_text(Some(key));
                    columns[2].put_integer(Some(repeat.row.key.repeat.into()));
                    columns[3].put_integer(Some(repeat.row.key.attempt.into()));
                    columns[4].put_text(Some(&channel.name));
                    columns[5].put_text(Some(&channel.unit));
                    columns[6].put_text(Some(channel.kind.name()));
                    columns[7].put_text(Some(channel.fidelity.name()));
                    columns[8].put_integer(Some(*at));
                    columns[9].put_integer((*value != NOT_READ).then_some(*value));
                    columns[10].put_text(Some(quality_name(*quality)));
                    file.end_row().map_err(&failed)?;
                }
            }
        }
    }
    file.finish().map_err(failed)
}

fn quality_name(code: u8) -> &'static str {
    let known = Quality::ALL.iter().find(|quality| quality.code() == code);
    known.map_or("unknown", |quality| quality.name())
}

/// One column and the cells of the group that is being filled.
struct Column {
    name: String,
    unit: String,
    cells: Cells,
    /// 1 for each cell that is there, 0 for null.
    levels: Vec<i16>,
}

enum Cells {
    Text {
        last: Option<ByteArray>,
        all: Vec<ByteArray>,
    },
    Integer(Vec<i64>),
    Double(Vec<f64>),
}

impl Column {
    fn new(name: &str, unit: impl Into<String>, cells: Cells) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            cells,
            levels: Vec::new(),
        }
    }

    fn text(name: &str) -> Self {
        let cells = Cells::Text {
            last: None,
            all: Vec::new(),
        };
        Self::new(name, "text", cells)
    }

    fn integer(name: &str, unit: impl Into<String>) -> Self {
        Self::new(name, unit, Cells::Integer(Vec::new()))
    }

    fn double(name: &str, unit: impl Into<String>) -> Self {
        Self::new(name, unit, Cells::Double(Vec::new()))
    }

    fn put_text(&mut self, text: Option<&str>) {
        self.levels.push(text.is_some().into());
        let (Cells::Text { last, all }, Some(text)) = (&mut self.cells, text) else {
            return;
        };
        // Most texts are those of the row before; a clone shares its bytes.
        let cell = match last {
            Some(last) if last.data() == text.as_bytes() => last.clone(),
            _ => ByteArray::from(text),
        };
        *last = Some(cell.clone());
        all.push(cell);
    }

    fn put_integer(&mut self, value: Option<i64>) {
        self.levels.push(value.is_some().into());
        if let Cells::Integer(all) = &mut self.cells {
            all.extend(value);
        }
    }

    fn put_double(&mut self, value: Option<f64>) {
        self.levels.push(value.is_some().into());
        if let Cells::Double(all) = &mut self.cells {
            all.extend(value);
        }
    }

    fn to_type(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.cells {
            Cells::Text { .. } => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Cells::Integer(_) => (Physical::INT64, None),
            Cells::Double(_) => (Physical::DOUBLE, None),
        };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.cells {
            Cells::Text { all, .. } => all.clear(),
            Cells::Integer(all) => all.clear(),
            Cells::Double(all) => all.clear(),
        }
    }
}

/// A file that is filled row by row and written group by group.
struct File<'a> {
    to: &'a mut dyn Write,
    through: Pipe,
    writer: SerializedFileWriter<Pipe>,
    columns: Vec<Column>,
    rows: usize,
}

impl<'a> File<'a> {
    fn new(to: &'a mut dyn Write, columns: Vec<Column>) -> io::Result<Self> {
        let fields = columns.iter().map(|column| column.to_type().map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(failed)?;
        let schema = Type::group_type_builder("edgedyno")
            .with_fields(fields)
            .build();
        let units: serde_json::Map<String, serde_json::Value> = columns
            .iter()
            .map(|column| (column.name.clone(), column.unit.as_str().into()))
            .collect();
        let said = vec![
            KeyValue::new("edgedyno.document".into(), Some(DOCUMENT.into())),
            KeyValue::new(
                "edgedyno.units".into(),
                Some(serde_json::Value::from(units).to_string()),
            ),
        ];
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(GzipLevel::default()))
            .set_created_by(format!("edgedyno {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(said))
            .build();
        let through = Pipe::default();
        let schema = Arc::new(schema.map_err(failed)?);
        let writer = SerializedFileWriter::new(through.clone(), schema, Arc::new(properties));
        Ok(Self {
            to,
            through,
            writer: writer.map_err(failed)?,
            columns,
            rows: 0,
        })
    }

    fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        match self.rows < GROUP {
            true => Ok(()),
            false => self.end_group(),
        }
    }

    fn end_group(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            let Some(mut to) = group.next_column().map_err(failed)? else {
                return Err(io::Error::other(
                    "the file has fewer columns than were declared",
                ));
            };
            let levels = Some(column.levels.as_slice());
            match &column.cells {
                Cells::Text { all, .. } => {
                    to.typed::<ByteArrayType>().write_batch(all, levels, None)
                }
                Cells::Integer(all) => to.typed::<Int64Type>().write_batch(all, levels, None),
                Cells::Double(all) => to.typed::<DoubleType>().write_batch(all, levels, None),
            }
            .map_err(failed)?;
            to.close().map_err(failed)?;
            column.clear();
        }
        group.close().map_err(failed)?;
        self.rows = 0;
        self.through.empty_into(self.to)
    }

    fn finish(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.end_group()?;
        }
        self.writer.close().map_err(failed)?;
        self.through.empty_into(self.to)
    }
}

fn failed(why: ParquetError) -> io::Error {
    io::Error::other(why)
}

/// What the crate has written and we have not passed on: it wants to own where it writes to.
#[derive(Debug, Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Pipe {
    fn empty_into(&self, to: &mut dyn Write) -> io::Result<()> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        to.write_all(&bytes)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::export::find;
    use crate::store::Store;
    use crate::store::sample::{MS, add_run, deliver, key, new_store, repeat, run_id, watched};

    /// Rows of a file as names and values, read by the crate's own reader.
    fn rows(path: &std::path::Path) -> Vec<Vec<(String, Field)>> {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(|row| {
            row.unwrap()
                .get_column_iter()
                .map(|(name, field)| (name.clone(), field.clone()))
                .collect()
        });
        rows.collect()
    }

    fn cell<'a>(row: &'a [(String, Field)], name: &str) -> &'a Field {
        &row.iter().find(|(found, _)| found == name).unwrap().1
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (dir, mut store) = new_store();
        add_run(&store, "a");
        let mut records = repeat(&[2 * MS, 3 * MS]);
        let end = records.len() - 1;
        records.splice(
            end..end,
            watched(7, "cpu0.freq", "hz", &[(101, Some(5)), (102, None)]),
        );
        deliver(&mut store, key("a", 0, 0), &records).unwrap();
        let source = Source::Stored {
            store: Store::open_reading(store.dir()).unwrap(),
            run: run_id("a"),
        };
        let cases = source.cases().unwrap();
        let folder = dir.path().join("out");
        let mut output = Output::at(&folder, true).unwrap();
        let parquet = find("parquet").unwrap();
        parquet
            .write(&source, &cases.iter().collect::<Vec<_>>(), &mut output)
            .unwrap();

        let trials = rows(&folder.join(TRIALS));
        // Two cold, one of warm-up, two measured.
        assert_eq!(trials.len(), 5);
        let last = &trials[4];
        assert_eq!(cell(last, "run"), &Field::Str("a".into()));
        assert_eq!(cell(last, "role"), &Field::Str("measure".into()));
        assert_eq!(cell(last, "latency_ms"), &Field::Double(3.0));
        assert_eq!(cell(last, "start_ns"), &Field::Long(102 * MS));
        assert_eq!(cell(last, "device_ns"), &Field::Long(3 * MS / 2));

        let telemetry = rows(&folder.join(TELEMETRY));
        let cells: Vec<(&Field, &Field, &Field)> = telemetry
            .iter()
            .map(|row| (cell(row, "at_ns"), cell(row, "value"), cell(row, "quality")))
            .collect();
        let text = |text: &str| Field::Str(text.into());
        assert_eq!(
            cells[0],
            (&Field::Long(101 * MS), &Field::Long(5), &text("ok"))
        );
        assert_eq!(
            cells[1],
            (&Field::Long(102 * MS), &Field::Null, &text("denied"))
        );
        let reader =
            SerializedFileReader::new(std::fs::File::open(folder.join(TRIALS)).unwrap()).unwrap();
        let said = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let units = said
            .iter()
            .find(|pair| pair.key == "edgedyno.units")
            .unwrap();
        let units: serde_json::Value = serde_json::from_str(units.value.as_ref().unwrap()).unwrap();
        assert_eq!(
            (&units["latency_ms"], &units["device_ns"]),
            (&"ms".into(), &"ns".into())
        );
    }
}
